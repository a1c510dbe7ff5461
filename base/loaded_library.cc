#include "base/loaded_library.h"

#include <link.h>

namespace gdr {
namespace {

// Both numbers only grow, so that an equal sum means that neither has.
uint64_t loads_and_unloads(const dl_phdr_info& info) { return info.dlpi_adds + info.dlpi_subs; }

struct Search {
  LoadedLibrary::Matches matches;
  uint64_t known;  // the caller's
  uint64_t now = 0;
  bool found = false;
};

// The loader's lock is held throughout, so that the libraries and the numbers fit each other.
int look(dl_phdr_info* info, size_t, void* argument) {
  auto* search = static_cast<Search*>(argument);
  search->now = loads_and_unloads(*info) + 1;
  if (search->now == search->known >> 1) return 1;
  const std::string_view path = info->dlpi_name;
  search->found = search->matches(path.substr(path.rfind('/') + 1));
  return search->found ? 1 : 0;
}

}  // namespace

bool LoadedLibrary::is_loaded() {
  Search search{matches_, known_.load(std::memory_order_relaxed)};
  dl_iterate_phdr(look, &search);
  if (search.now == search.known >> 1) return (search.known & 1) != 0;
  known_.store(search.now << 1 | (search.found ? 1 : 0), std::memory_order_relaxed);
  return search.found;
}

}  // namespace gdr
