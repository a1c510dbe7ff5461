#include "base/loaded_library.h"

#include <link.h>

namespace gdr {

bool has_loaded(const std::function<bool(std::string_view file_name)>& matches) {
  auto look = [](dl_phdr_info* info, size_t, void* argument) {
    const std::string_view path = info->dlpi_name;
    const auto& is_it = *static_cast<const std::function<bool(std::string_view)>*>(argument);
    return is_it(path.substr(path.rfind('/') + 1)) ? 1 : 0;
  };
  return dl_iterate_phdr(look, const_cast<std::function<bool(std::string_view)>*>(&matches)) != 0;
}

}  // namespace gdr
