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
    if (name.substr(0, 5) != "NCCL_" && name.substr(0, 9) != "GDR_NCCL_") continue;
    found.emplace(name, text.substr(equals + 1));  // the first of two wins, as in getenv()
  }
  return found;
}

}  // namespace gdr::config
