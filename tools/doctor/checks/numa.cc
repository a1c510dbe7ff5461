// NUMA nodes of GPUs and HCAs. How far a GPU is from its rail is a
// matter of path classes, and of another check.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/topology.h"

namespace gdr::tools::doctor {
namespace {

size_t numa_nodes_of(const Machine& machine) {
  return static_cast<size_t>(
      std::count_if(machine.numa_nodes.begin(), machine.numa_nodes.end(),
                    [](const topology::NumaNode& node) { return node.id >= 0; }));
}

// A bit mask: 1 balances between nodes, 2 only moves cold pages to slow memory
// (kernel documentation, admin-guide/sysctl/kernel.rst).
constexpr char kNumaBalancingFile[] = "/proc/sys/kernel/numa_balancing";

// "0" is one node; "0-1" and "0,8" are several.
bool has_several_nodes(const Host& host) {
  return host.line("/sys/devices/system/node/online").find_first_of("-,") != std::string::npos;
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

Observations run_numa_balancing(const Host& host) {
  const std::string text = host.line(kNumaBalancingFile);
  if (text.empty()) {
    if (host.line("/proc/sys/kernel/ostype").empty()) {
      return {unknown("", fmt::format("{} cannot be read", kNumaBalancingFile), "mount /proc")};
    }
    return {ok("", "the kernel has no automatic NUMA balancing")};
  }
  const long mode = std::strtol(text.c_str(), nullptr, 10);
  const std::string evidence =
      fmt::format("automatic NUMA balancing is {} ({} is {})", (mode & 1) != 0 ? "on" : "off",
                  kNumaBalancingFile, mode);
  if ((mode & 1) == 0) return {ok("", evidence)};
  if (!has_several_nodes(host)) {
    return {ok_without(host, "", evidence + ", and this machine has one NUMA node")};
  }
  if (gpu_count(host) == 0 || rdma_device_names(host).empty()) {
    return {ok_without(host, "",
                       evidence + "; there is no pair of GPU and HCA here that it would disturb")};
  }
  return {warning("", evidence,
                  "sysctl -w kernel.numa_balancing=0, and the line "
                  "kernel.numa_balancing = 0 in a file of /etc/sysctl.d",
                  {"sysctl -w kernel.numa_balancing=0"})};
}

}  // namespace gdr::tools::doctor
