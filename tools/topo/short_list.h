#pragma once

#include <string>
#include <vector>

namespace gdr::tools::topo {

// Returns the texts joined by commas or, of more than four, the first three and how many more there
// are: "a, b, c and 5 more".
std::string short_list(const std::vector<std::string>& texts);

}  // namespace gdr::tools::topo
