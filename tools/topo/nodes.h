// The machines that one call of `nccl-gdr topo` is about.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "tools/topo/inspection.h"
#include "tools/topo/profile.h"

namespace gdr::tools::topo {

struct Node {
  std::string name;  // the host's, or what it was read from; unique in a list
  Result<Inspection> inspection;
};

// As options.host: every host of a file.
inline constexpr char kAllHosts[] = "all";

// Inspects the machines of `sources`, each as InspectOptions::from; options.from does not count.
std::vector<Node> read_nodes(const InspectOptions& options,
                             const std::vector<std::string>& sources);

struct ProfiledNode {
  std::string name;
  Result<Profile> profile;
};

// The same for comparisons. A source may also be a file of `nccl-gdr topo --json` with one document
// or more.
std::vector<ProfiledNode> read_profiles(const InspectOptions& options,
                                        const std::vector<std::string>& sources);

// Returns the one machine of a source, or that of options.host. Fails where it has several.
Result<Profile> read_profile(const InspectOptions& options, const std::string& source);

// Returns the one document of a file of `nccl-gdr topo --json`.
Result<Profile> read_golden(const std::string& file);

}  // namespace gdr::tools::topo
