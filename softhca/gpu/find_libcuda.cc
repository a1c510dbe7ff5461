#include "softhca/gpu/find_libcuda.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdint>

namespace softhca {
namespace {

// Returns how many libraries this process has loaded so far.
uint64_t libraries_loaded() {
  uint64_t loaded = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        *static_cast<uint64_t*>(out) = info->dlpi_adds;
        return 1;  // the count is the same in every entry
      },
      &loaded);
  return loaded;
}

}  // namespace

std::optional<gdr::cuda::Api> find_libcuda() {
  static uint64_t searched_at = 0;
  uint64_t loaded = libraries_loaded();
  if (loaded == searched_at) return std::nullopt;
  searched_at = loaded;
  // The reference taken here keeps libcuda in place for as long as its functions are used.
  void* library = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  gdr::Result<gdr::cuda::Api> api = gdr::cuda::bind(library);
  if (api) return *api;
  dlclose(library);
  return std::nullopt;
}

}  // namespace softhca
