// Differences between two machines.
#pragma once

#include <string>
#include <vector>

#include "tools/doctor/profile.h"

namespace gdr::tools::doctor {

// The property of a device that one of the machines does not have.
inline constexpr char kPresence[] = "present";  // "yes", "no"

struct Difference {
  // "GPU3", "mlx5_3", "mlx5_3 (0000:b1:00.0)", "PCIe switch 0000:15:00.0"; "" for the machine
  std::string subject = {};
  std::string property = {}, first = {}, second = {};
  std::string kind = {};  // of the device: kGpuKind, ...
};

// Compares what is known of both. Settings, software and missing devices come first, then
// properties of devices, then paths, rails and NCCL's decisions, since those follow from the
// former. Devices of the two machines belong together by address, by name or by order, of which one
// may be missing, whichever leaves the fewest differences; in doubt by address. What has no
// counterpart goes by the next.
std::vector<Difference> compare_profiles(const Profile& first, const Profile& second);

}  // namespace gdr::tools::doctor
