#include "plugin/config/environment.h"

#include <unistd.h>

#include <string_view>

namespace gdr::config {

Environment process_environment() {
  Environment found;
  for (char** item = environ; item != nullptr && *item != nullptr; ++item) {
    std::string_view text = *item;
    size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    std::string_view name = text.substr(0, equals);
    const bool ours = name.starts_with("NCCL_") || name.starts_with("GDR_NCCL_");
    if (!ours && name != kMlx5SingleThreaded) continue;
    found.emplace(name, text.substr(equals + 1));  // the first of two wins, as in getenv()
  }
  return found;
}

}  // namespace gdr::config
