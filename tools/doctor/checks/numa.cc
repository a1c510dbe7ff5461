// NUMA nodes of GPUs and HCAs. How far a GPU is from its rail is a
// matter of path classes, and of another check.
#include <fmt/format.h>

#include <algorithm>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/topology.h"

namespace gdr::tools::doctor {
namespace {

size_t numa_nodes_of(const Machine& machine) {
  return static_cast<size_t>(
      std::count_if(machine.numa_nodes.begin(), machine.numa_nodes.end(),
                    [](const topology::NumaNode& node) { return node.id >= 0; }));
}

}  // namespace

// On a machine of one node every device is near it, whatever the firmware states. In a file of
// NCCL, devices of unknown node are on a CPU of their own beside that node.
void judge_numa_nodes(const Host& host, Findings* found) {
  const Machine& machine = machine_of(host);
  const size_t nodes = numa_nodes_of(machine);
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
       fmt::format(
           "the NUMA node is unknown ({} is -1), so that NCCL takes {} to be far from every "
           "device of a known node",
           machine.nccl_file ? "numaid of the <cpu>" : "numa_node",
           names.size() == 1 ? "the device" : "the devices"),
       machine.nccl_file
           ? "correct numaid in the file; where NCCL wrote it, update the machine's firmware"
           : "update the firmware, or write the node to numa_node in the device's folder of "
             "sysfs"});
}

Observations run_numa(const Host& host) {
  const Machine& machine = machine_of(host);
  Observations seen = findings_of(host, check_named("numa").kinds);
  const size_t nodes = numa_nodes_of(machine);
  if (nodes == 0) {
    return {unknown("", "no NUMA node is known", "mount the machine's /sys/devices/system/node")};
  }
  if (nodes == 1 && seen.empty()) {
    // Without /sys the topology has one node as well.
    if (!shows_devices(host)) return {nothing_on(host, "")};
    return {ok("", "there is one NUMA node, so that every device is near it")};
  }
  if (seen.empty()) {
    seen.push_back(
        ok("", fmt::format("the NUMA node of each GPU and HCA on PCIe is known, of {}", nodes)));
  }
  return seen;
}

}  // namespace gdr::tools::doctor
