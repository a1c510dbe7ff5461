// The machines that one call of `nccl-gdr topo` is about.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "tools/topo/inspection.h"

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

}  // namespace gdr::tools::topo
