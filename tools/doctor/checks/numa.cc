// NUMA nodes of GPUs and HCAs, and the CPUs of this process. How far a GPU is from its rail is a
// matter of path classes, and of another check.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/topology.h"
#include "topology/cpu_mask.h"

namespace gdr::tools::doctor {
namespace {

constexpr char kProcessStatus[] = "/proc/self/status";

size_t numa_nodes_of(const Machine& machine) {
  return static_cast<size_t>(
      std::count_if(machine.numa_nodes.begin(), machine.numa_nodes.end(),
                    [](const topology::NumaNode& node) { return node.id >= 0; }));
}

// The list of CPUs that this process may run on, as "0-31,64-95"; "" where unknown.
std::string allowed_cpus(const Host& host) {
  const std::string list = host.line_of(kProcessStatus, "Cpus_allowed_list:").value_or("");
  const size_t from = list.find_first_not_of(" \t");
  return from == std::string::npos ? "" : list.substr(from);
}

std::set<int> cpu_numbers(const std::string& list) {
  const std::optional<std::string> mask = topology::mask_of_list(list);
  const auto cpus = mask.has_value() ? topology::cpus_in(*mask) : std::nullopt;
  return cpus.has_value() ? std::set<int>(cpus->begin(), cpus->end()) : std::set<int>();
}

// Whether the process may run on some CPU of the node, as far as that is known.
bool reaches_node(const Machine& machine, int node, const std::set<int>& allowed) {
  if (node < 0) return true;
  const auto cpus = topology::cpus_in(machine.numa_nodes[static_cast<size_t>(node)].cpus);
  if (!cpus.has_value() || cpus->empty()) return true;
  return std::any_of(cpus->begin(), cpus->end(), [&](int cpu) { return allowed.count(cpu) > 0; });
}

// Only where the process is restricted: a launcher may have bound it as the rank of one GPU, or a
// container may have CPUs of one socket and all GPUs.
void add_affinity(const Host& host, Observations* seen) {
  const Machine& machine = machine_of(host);
  const std::string list = allowed_cpus(host);
  const std::set<int> allowed = cpu_numbers(list);
  if (!host.is_live || allowed.empty() || machine.gpus.empty()) return;
  if (allowed == cpu_numbers(host.line("/sys/devices/system/cpu/online"))) return;
  std::vector<std::string> far;
  for (size_t i = 0; i < machine.gpus.size(); ++i) {
    if (!reaches_node(machine, machine.gpus[i].at.numa, allowed)) {
      far.push_back(gpu_name(machine, i));
    }
  }
  const std::string evidence = fmt::format(
      "this process may run on CPUs {} (Cpus_allowed_list in {})", list, kProcessStatus);
  if (far.empty()) {
    seen->push_back(ok("", evidence + ", some of them near each GPU"));
  } else if (far.size() < machine.gpus.size()) {
    seen->push_back(ok("", evidence + ", none of them near " + topo::short_list(far) +
                               ": right for a rank of another GPU, and for no other"));
  } else {
    seen->push_back(warning("", evidence + ", and every GPU is on another NUMA node",
                            "bind the process to CPUs near its GPU: numactl --cpunodebind, or "
                            "CPUs of both sockets for the container"));
  }
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
  add_affinity(host, &seen);
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
                  {{"Turns automatic NUMA balancing off until the next boot.",
                    "sysctl -w kernel.numa_balancing=0",
                    fmt::format("sysctl -w kernel.numa_balancing={}", mode)}})};
}

}  // namespace gdr::tools::doctor
