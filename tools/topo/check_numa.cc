// NUMA nodes of devices.
#include <algorithm>

#include "tools/topo/checks.h"

namespace gdr::tools::topo {
namespace {

bool has_unknown_node(const Machine& machine, const Attachment& at) {
  return at.numa < 0 || machine.numa_nodes[static_cast<size_t>(at.numa)].id < 0;
}

}  // namespace

// On a machine of one node every device is near it, whatever the firmware states. In a file of
// NCCL, devices of unknown node are on a CPU of their own beside that node.
void check_numa(const CheckInput& input, Findings* found) {
  const Machine& machine = input.machine();
  const auto nodes = std::count_if(machine.numa_nodes.begin(), machine.numa_nodes.end(),
                                   [](const NumaNode& node) { return node.id >= 0; });
  if (nodes < (machine.nccl_file ? 1 : 2)) return;
  std::vector<std::string> names;
  for (size_t i = 0; i < machine.gpus.size(); ++i) {
    if (has_unknown_node(machine, machine.gpus[i].at)) names.push_back(gpu_name(machine, i));
  }
  for (size_t i = 0; i < machine.hcas.size(); ++i) {
    const Hca& hca = machine.hcas[i];
    if (hca.bdf.has_value() && has_unknown_node(machine, hca.at)) {
      names.push_back(hca_name(machine, i));
    }
  }
  if (names.empty()) return;
  found->push_back(
      {FindingKind::kNuma, Severity::kWarning, short_list(names),
       "the NUMA node is unknown (numa_node is -1), so that NCCL places them wrongly",
       "update the firmware, or write the node to numa_node in the device's folder of sysfs"});
}

}  // namespace gdr::tools::topo
