// What two machines are compared by: the output of `nccl-gdr doctor --fingerprint`, brought into
// properties with texts as values.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace gdr::tools::doctor {

struct Property {
  std::string name;                  // "port 1 state"
  std::optional<std::string> value;  // "active"; nothing: unknown
};

using Settings = std::map<std::string, std::string>;  // variables and their values

struct DeviceProfile {
  std::string label;    // "GPU3", "mlx5_3"
  std::string address;  // "0000:3b:00.0"; "" where it has none
  std::vector<Property> properties;
};

using PathMatrix = std::vector<std::vector<std::optional<std::string>>>;

struct Profile {
  std::string name;                  // the host's, or what it was read from
  bool has_topology = false;         // if not, its devices are unknown, beside their firmware
  std::vector<Property> properties;  // of the machine as a whole, and of its software
  Settings settings;                 // of NCCL and the plugin
  std::vector<DeviceProfile> gpus;
  std::vector<DeviceProfile> hcas;
  std::vector<DeviceProfile> switches;  // "PCIe switch 0000:15:00.0"
  bool switches_known = false;
  PathMatrix gpu_gpu;  // path classes; cells that are missing are unknown
  PathMatrix gpu_hca;
};

// Fills what the output of `nccl-gdr topo --json` shows; keys may be in any order, and unknown keys
// are ignored. Fails with kInvalidArgument where it is not such a document, or is of another schema
// version than this program writes.
Status add_topology(const nlohmann::ordered_json& topology, Profile* profile);

// Parses the output of --fingerprint. Fails with kInvalidArgument where it is something else, or of
// another version.
Result<Profile> parse_fingerprint(const std::string& text);

// Reads one from each file; their names are unique. Fails with kInvalidArgument and a text that
// names the file.
Result<std::vector<Profile>> read_fingerprints(const std::vector<std::string>& files);

}  // namespace gdr::tools::doctor
