// What two machines are compared by: the output of `nccl-gdr topo --json`, brought into properties
// with texts as values.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"

namespace gdr::tools::topo {

// What a property is about, for comparisons that leave some out.
enum class Aspect {
  kShape,      // devices, links, speeds, states, distances, rails, what NCCL will decide
  kNames,      // names of HCAs
  kAddresses,  // PCI addresses
  kGuids,      // GUIDs of HCAs
  kRelease,    // the release of NCCL whose rules count
};

struct Property {
  std::string name;                  // "port 1 state"
  std::optional<std::string> value;  // "active"; nothing: unknown
  Aspect aspect = Aspect::kShape;
};

struct DeviceProfile {
  std::string label;    // "GPU3", "mlx5_3"
  std::string address;  // "0000:3b:00.0"; "" where it has none
  std::vector<Property> properties;
};

using PathMatrix = std::vector<std::vector<std::optional<std::string>>>;

struct Profile {
  std::string host;  // "" where unknown
  int schema_version = 0;
  std::vector<Property> properties;  // of the machine as a whole
  std::vector<DeviceProfile> gpus;
  std::vector<DeviceProfile> hcas;
  std::vector<DeviceProfile> switches;  // "PCIe switch 0000:15:00.0"
  bool switches_known = false;
  std::set<std::string> excluded_hcas;  // names of HCAs that NCCL_IB_HCA excludes a port of
  PathMatrix gpu_gpu;                   // path classes; cells that are missing are unknown
  PathMatrix gpu_hca;
};

// Reads one document; keys may be in any order, and unknown keys are ignored. Fails with
// kInvalidArgument where it is not such a document, or is of another schema version than this
// program writes.
Result<Profile> profile_of(const nlohmann::ordered_json& document);

// Parses a file with one or more documents, one after the other, and returns them with the same
// errors, also where values are nested in more than 64 levels; `name` is that of the file.
Result<std::vector<Profile>> parse_profiles(const std::string& name, const std::string& text);

}  // namespace gdr::tools::topo
