// Which nodes of a cluster differ from the others, and in what.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/topo/diff.h"
#include "tools/topo/profile.h"

namespace gdr::tools::doctor {

struct FleetNode {
  std::string name;  // the host's name, unique in a list
  // What it is compared by: the topology, with the software as properties of the machine, firmware
  // as a property of an HCA.
  topo::Profile profile;
  std::set<std::string> settings;  // names of its variables
  bool has_topology = false;       // if not, its devices are unknown, beside their firmware
};

// Parses the output of --fingerprint. Fails with kInvalidArgument where it is something else, or of
// another version.
Result<FleetNode> parse_fingerprint(const std::string& text);

// Reads one from each file. Fails with kInvalidArgument and a text that names the file.
Result<std::vector<FleetNode>> read_fleet(const std::vector<std::string>& files);

// A node that is not like the others.
struct Deviation {
  std::string node;
  std::vector<topo::Difference> differences;  // of the node from the reference
};

struct FleetComparison {
  size_t nodes = 0;
  std::vector<std::string> alike;  // the largest group of nodes without differences
  // Whether that group is larger than every other one. If not, its first node is the reference, and
  // nothing says that it is right.
  bool is_majority = true;
  std::vector<Deviation> deviations;
};

// Compares at least one node. What is unknown on either side is no difference; neither are names
// and addresses of devices and GUIDs.
FleetComparison compare_fleet(std::vector<FleetNode> nodes);

// A line for each difference, then one with the numbers.
std::string to_text(const FleetComparison& comparison);
std::string to_json(const FleetComparison& comparison);

}  // namespace gdr::tools::doctor
