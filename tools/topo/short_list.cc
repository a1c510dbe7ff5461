#include "tools/topo/short_list.h"

namespace gdr::tools::topo {
namespace {

constexpr size_t kMostListed = 4;

}  // namespace

std::string short_list(const std::vector<std::string>& texts) {
  std::string list;
  const size_t shown = texts.size() <= kMostListed ? texts.size() : kMostListed - 1;
  for (size_t i = 0; i < shown; ++i) list += (list.empty() ? "" : ", ") + texts[i];
  if (shown < texts.size()) list += " and " + std::to_string(texts.size() - shown) + " more";
  return list;
}

}  // namespace gdr::tools::topo
