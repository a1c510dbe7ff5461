// Text in columns, aligned with blanks because tabs break when people paste them.
#pragma once

#include <string>
#include <vector>

namespace gdr::topology {

using TextRow = std::vector<std::string>;

// One line for each row, cells aligned on the left; rows may have fewer cells than others.
std::string aligned(const std::vector<TextRow>& rows, const std::string& indent);

}  // namespace gdr::topology
