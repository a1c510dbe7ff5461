// Differences between two machines.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tools/topo/profile.h"

namespace gdr::tools::topo {

struct Difference {
  enum class Kind { kValue, kOnlyInFirst, kOnlyInSecond };
  enum class Device { kNone, kGpu, kHca, kSwitch };
  Kind kind = Kind::kValue;
  // "GPU3", "mlx5_3", "mlx5_3 (0000:b1:00.0)", "PCIe switch 0000:15:00.0"; "" for the machine
  std::string subject;
  std::string property;              // for kValue; for kOnlyInSecond, why the first has none, or ""
  std::optional<std::string> first;  // only for kValue; nothing: unknown
  std::optional<std::string> second;
  Device device = Device::kNone;  // what the subject is
  bool several = false;           // whether the subject names several devices
};

// Compares what belongs to one of `aspects`. Devices come first, then their properties, then paths,
// rails and NCCL's decisions, since those follow from the former. Devices of the two machines
// belong together by address, by name or by order, whichever leaves the fewest differences of the
// shape; in doubt by address. What one of them leaves without a counterpart goes by the next.
std::vector<Difference> compare_profiles(const Profile& first, const Profile& second,
                                         const std::set<Aspect>& aspects);

// Removes the differences of values that are unknown in the second machine.
void drop_unknown_in_second(std::vector<Difference>* list);

// Returns the list with the differences that are the same for several devices of one kind as one,
// which names the first of them: "GPU0, GPU1, GPU2 and 5 more".
std::vector<Difference> grouped(const std::vector<Difference>& list);

// Returns the difference in a sentence that names both machines:
// "mlx5_3: port 1 state: down in a.xml, active in b.xml".
std::string comparing_text(const Difference& difference, const std::string& first,
                           const std::string& second);

// Returns the difference as the first machine's deviation from the second:
// "mlx5_3: port 1 state: down, expected active".
std::string expecting_text(const Difference& difference);

}  // namespace gdr::tools::topo
