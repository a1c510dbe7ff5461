// Differences between two machines.
#pragma once

#include <string>
#include <vector>

#include "tools/doctor/profile.h"

namespace gdr::tools::doctor {

struct Difference {
  enum class Kind { kValue, kOnlyInFirst, kOnlyInSecond };
  enum class Device { kNone, kGpu, kHca, kSwitch };
  Kind kind = Kind::kValue;
  // "GPU3", "mlx5_3", "mlx5_3 (0000:b1:00.0)", "PCIe switch 0000:15:00.0"; "" for the machine
  std::string subject;
  std::string property, first, second;  // only for kValue
  Device device = Device::kNone;        // what the subject is
  bool several = false;                 // whether the subject names several devices
};

// Compares what is known of both. Settings, software and missing devices come first, then
// properties of devices, then paths, rails and NCCL's decisions, since those follow from the
// former. Devices of the two machines belong together by address, by name or by order, whichever
// leaves the fewest differences; in doubt by address. What one of them leaves without a counterpart
// goes by the next.
std::vector<Difference> compare_profiles(const Profile& first, const Profile& second);

// Returns the list with the differences that are the same for several devices of one kind as one,
// which names the first of them: "GPU0, GPU1, GPU2 and 5 more".
std::vector<Difference> grouped(const std::vector<Difference>& list);

// Returns the difference in a sentence that names both machines:
// "mlx5_3: port 1 state: down in node16, active in node17".
std::string comparing_text(const Difference& difference, const std::string& first,
                           const std::string& second);

// Returns the difference as the first machine's deviation from the second:
// "mlx5_3: port 1 state: down, expected active".
std::string expecting_text(const Difference& difference);

}  // namespace gdr::tools::doctor
