#include "tools/topo/folder_names.h"

#include <algorithm>
#include <system_error>

#include "topology/model.h"

namespace gdr::tools::topo {

namespace fs = std::filesystem;

std::vector<std::string> folder_names(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  std::sort(names.begin(), names.end(), topology::name_less);
  return names;
}

}  // namespace gdr::tools::topo
