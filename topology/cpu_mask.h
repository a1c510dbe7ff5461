// The operating system's CPU masks.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace gdr::topology {

// The CPUs of "00000000,0000ffff" (groups of at most 8 hexadecimal digits, the highest first),
// ascending; nothing where the text is no such mask.
std::optional<std::vector<int>> cpus_in(std::string_view mask);

}  // namespace gdr::topology
