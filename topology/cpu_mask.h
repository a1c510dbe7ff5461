// CPU masks in the text form of Linux, as in /sys/devices/system/node/node0/cpumap.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace gdr::topology {

// Returns the numbers of the CPUs in a mask, ascending. A mask is groups of 1 to 8 hexadecimal
// digits separated by commas; a group is 32 CPUs, and the last one has CPUs 0 to 31: "1,80000001"
// is 0, 31 and 32. Returns nothing where the text is not such a mask.
std::optional<std::vector<int>> cpus_in(std::string_view mask);

}  // namespace gdr::topology
