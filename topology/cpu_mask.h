// CPU masks in the text form of Linux, as in /sys/devices/system/node/node0/cpumap.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gdr::topology {

// Returns the numbers of the CPUs in a mask, ascending. A mask is groups of 1 to 8 hexadecimal
// digits separated by commas; a group is 32 CPUs, and the last one has CPUs 0 to 31: "1,80000001"
// is 0, 31 and 32. Returns nothing where the text is not such a mask.
std::optional<std::vector<int>> cpus_in(std::string_view mask);

// Returns the mask of a list of CPUs such as "0-47,96-143", as in
// /sys/devices/system/node/node0/cpulist: groups of 8 digits, the highest first. Returns nothing
// where the text is not such a list, or names a CPU beyond kMaxCpu.
std::optional<std::string> mask_of_list(std::string_view list);

inline constexpr int kMaxCpu = 8191;  // the greatest that Linux can be built for

}  // namespace gdr::topology
