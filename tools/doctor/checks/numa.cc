// NUMA nodes of GPUs and HCAs, and the CPUs of this process. How far a GPU is from its rail is a
// matter of path classes, and of another check.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/host.h"
#include "tools/doctor/silent_file.h"
#include "tools/topo/checks.h"
#include "topology/cpu_mask.h"

namespace gdr::tools::doctor {
namespace {

constexpr char kProcessStatus[] = "/proc/self/status";

size_t numa_nodes_of(const topology::Machine& machine) {
  return static_cast<size_t>(
      std::count_if(machine.numa_nodes.begin(), machine.numa_nodes.end(),
                    [](const topology::NumaNode& node) { return node.id >= 0; }));
}

// The list of CPUs that this process may run on, as "0-31,64-95"; "" where unknown.
std::string allowed_cpus(const Host& host) {
  constexpr std::string_view kKey = "\nCpus_allowed_list:";
  const std::string status = host.read(kProcessStatus).value_or("");
  const size_t at = status.find(kKey);
  if (at == std::string::npos) return "";
  const size_t from = status.find_first_not_of(" \t", at + kKey.size());
  const size_t to = status.find('\n', at + kKey.size());
  return from == std::string::npos || from >= to ? "" : status.substr(from, to - from);
}

std::set<int> cpu_numbers(const std::string& list) {
  const std::optional<std::string> mask = topology::mask_of_list(list);
  const auto cpus = mask.has_value() ? topology::cpus_in(*mask) : std::nullopt;
  return cpus.has_value() ? std::set<int>(cpus->begin(), cpus->end()) : std::set<int>();
}

// Whether the process may run on some CPU of the node, as far as that is known.
bool reaches_node(const topology::Machine& machine, int node, const std::set<int>& allowed) {
  if (node < 0) return true;
  const auto cpus = topology::cpus_in(machine.numa_nodes[static_cast<size_t>(node)].cpus);
  if (!cpus.has_value() || cpus->empty()) return true;
  return std::any_of(cpus->begin(), cpus->end(), [&](int cpu) { return allowed.count(cpu) > 0; });
}

// Only where the process is restricted: a launcher may have bound it as the rank of one GPU, or a
// container may have CPUs of one socket and all GPUs.
void add_affinity(const Host& host, Observations* seen) {
  const topology::Machine& machine = host.inspection->decision.machine;
  const std::string list = allowed_cpus(host);
  const std::set<int> allowed = cpu_numbers(list);
  if (!host.is_live || allowed.empty() || machine.gpus.empty()) return;
  if (allowed == cpu_numbers(host.line("/sys/devices/system/cpu/online"))) return;
  std::vector<std::string> far;
  for (size_t i = 0; i < machine.gpus.size(); ++i) {
    if (!reaches_node(machine, machine.gpus[i].at.numa, allowed)) {
      far.push_back(topo::gpu_name(machine, i));
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

Observations run_numa(const Host& host) {
  if (!host.inspection.has_value()) return {unknown("", host.inspection_error, "")};
  const topology::Machine& machine = host.inspection->decision.machine;
  Observations seen = findings_of(host, numa().kinds);
  const size_t nodes = numa_nodes_of(machine);
  if (nodes == 0) {
    return {unknown("", "no NUMA node is known", "mount the machine's /sys/devices/system/node")};
  }
  if (nodes == 1) {
    // Without /sys the topology has one node as well.
    Observation hidden = nothing_on(host, "");
    if (hidden.verdict == Verdict::kUnknown) return {hidden};
    return {ok("", "there is one NUMA node, so that every device is near it")};
  }
  if (seen.empty()) {
    seen.push_back(
        ok("", fmt::format("the NUMA node of each GPU and HCA on PCIe is known, of {}", nodes)));
  }
  add_affinity(host, &seen);
  return seen;
}

}  // namespace

Check numa() {
  return {.name = "numa",
          .looks_at = "the NUMA nodes of GPUs and HCAs, and whether this process may run near them",
          .why =
              "NCCL takes a device of unknown node to be near no other, and threads far from "
              "their GPU go over the link between the sockets.",
          .cost = Cost::kSlows,
          .kinds = {FindingKind::kNuma},
          .of_silent_file = silent_file::is_good,
          .run = run_numa};
}

}  // namespace gdr::tools::doctor
