// Differences between two machines.
#pragma once

#include <string>
#include <vector>

#include "tools/doctor/report/profile.h"

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
// properties of devices, then paths; rails and NCCL's decisions, which follow from the devices,
// only where both have the same ones. Devices belong together by GUID, else by PCI address, if one
// machine has all addresses of the other, else by name; if none of these shows anything, by order
// where there are as many.
std::vector<Difference> compare_profiles(const Profile& first, const Profile& second);

}  // namespace gdr::tools::doctor
