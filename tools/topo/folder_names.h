// The names in a folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gdr::tools::topo {

// Returns the names in a folder, with numbers in their order (mlx5_2 before mlx5_10); none where it
// cannot be listed. Names are as the file system has them: clean_text() before they are shown.
std::vector<std::string> folder_names(const std::filesystem::path& folder);

}  // namespace gdr::tools::topo
