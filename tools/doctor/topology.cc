#include "tools/doctor/topology.h"

#include <algorithm>
#include <iterator>
#include <system_error>
#include <utility>

#include "tools/doctor/nccl_settings.h"

namespace gdr::tools::doctor {
namespace {

// What is found where GPUs, HCAs, ports or links are missing, elsewhere, down or slow.
constexpr FindingKind kFaults[] = {FindingKind::kRailShare, FindingKind::kNoRail,
                                   FindingKind::kPortDown,  FindingKind::kSlowLink,
                                   FindingKind::kPcieWidth, FindingKind::kPcieSpeed,
                                   FindingKind::kNvlink,    FindingKind::kC2c};

// Where a port is on its card: the PCI function, which most cards have one of for each port, and
// the number.
using Position = std::pair<int, int>;

Position position_of(const Hca& hca, const Port& port) {
  return {hca.bdf.has_value() ? hca.bdf->function : 0, port.number};
}

bool is_same_card(const Hca& a, const Hca& b) {
  if (&a == &b) return true;
  if (!a.bdf.has_value() || !b.bdf.has_value() || a.ids != b.ids) return false;
  return a.bdf->domain == b.bdf->domain && a.bdf->bus == b.bdf->bus &&
         a.bdf->device == b.bdf->device;
}

// Whether matches(hca, port) is true for some port of the machine.
template <class Matches>
bool has_port(const Machine& machine, Matches&& matches) {
  return std::any_of(machine.hcas.begin(), machine.hcas.end(), [&](const Hca& hca) {
    return std::any_of(hca.ports.begin(), hca.ports.end(),
                       [&](const Port& port) { return matches(hca, port); });
  });
}

}  // namespace

const RailDecision& decision_of(const Host& host) { return host.inspection->decision; }

const Machine& machine_of(const Host& host) { return decision_of(host).machine; }

void judge_topology(Host* host) {
  host->findings.clear();
  if (!host->inspection.has_value()) return;
  for (auto judge : {judge_pcie_links, judge_nvlinks, judge_port_states, judge_port_speeds,
                     judge_link_layers, judge_registration, judge_numa_nodes}) {
    judge(*host, &host->findings);
  }
  // Where some GPUs or HCAs, or where they are, may be unknown, rails cannot be judged.
  if (machine_of(*host).unclassified == 0 && !left_out(*host, "NCCL_TOPO_FILE")) {
    for (auto judge :
         {judge_rails, judge_rail_shares, judge_reach, judge_nccl_choices, judge_missing_gpus}) {
      judge(*host, &host->findings);
    }
  }
  for (const Finding& finding : decision_of(*host).findings) {
    // judge_port_speeds() judges slow links with more care, and nccl_variables.cc the file that
    // NCCL reads.
    const bool is_judged =
        (finding.kind == FindingKind::kSlowLink && !machine_of(*host).gpus.empty()) ||
        is_of_nccl_file(finding);
    if (finding.severity != Severity::kInfo && !is_judged) host->findings.push_back(finding);
  }
}

bool lacks_devices(const Host& host, const Findings& found) {
  return has_lost_hca(host) || std::any_of(found.begin(), found.end(), [](const Finding& one) {
           return std::find(std::begin(kFaults), std::end(kFaults), one.kind) != std::end(kFaults);
         });
}

bool has_absent_gpus(const Host& host) {
  if (!host.inspection.has_value() || !host.file.empty()) return false;
  const Machine& machine = machine_of(host);
  const auto is_absent = [&](const Gpu& gpu) {
    std::error_code unreadable;
    return !std::filesystem::exists(host.path("/sys/bus/pci/devices/" + gpu.bdf.to_string()),
                                    unreadable);
  };
  return machine.nccl_file && !machine.gpus.empty() &&
         std::all_of(machine.gpus.begin(), machine.gpus.end(), is_absent);
}

bool is_of_nccl_file(const Finding& finding) {
  return finding.kind == FindingKind::kTopologyFile || finding.kind == FindingKind::kNcclFails;
}

topo::PciState state_of(const Host& host, const std::optional<Bdf>& bdf) {
  const auto found = bdf.has_value() ? host.pci_states.find(*bdf) : host.pci_states.end();
  return found == host.pci_states.end() ? topo::PciState{} : found->second;
}

uint64_t bar1_bytes_of(const Host& host, const Gpu& gpu) {
  const uint64_t largest = state_of(host, gpu.bdf).largest_bar;
  return largest == 0 ? gpu.bar1_bytes : largest;
}

std::string gpu_name(const Machine& machine, size_t gpu) {
  return gpu_label(gpu) + " (" + machine.gpus[gpu].bdf.to_string() + ")";
}

std::string hca_name(const Machine& machine, size_t hca) {
  const Hca& one = machine.hcas[hca];
  return one.bdf.has_value() ? one.name + " (" + one.bdf->to_string() + ")" : one.name;
}

bool is_unused_second_port(const Machine& machine, PortRef port) {
  const Hca& own_hca = hca_of(machine, port);
  const Port& own = port_of(machine, port);
  const Position at = position_of(own_hca, own);
  if (own.state != Port::State::kDown || own_hca.physical_function.has_value()) return false;
  const bool first_is_up = has_port(machine, [&](const Hca& hca, const Port& other) {
    return other.state == Port::State::kActive && is_same_card(hca, own_hca) &&
           position_of(hca, other) < at;
  });
  const bool peer_is_up = has_port(machine, [&](const Hca& hca, const Port& other) {
    return other.state != Port::State::kDown && hca.ids == own_hca.ids &&
           position_of(hca, other) == at;
  });
  return first_is_up && !peer_is_up;
}

bool has_unknown_node(const Machine& machine, const Attachment& at) {
  return at.numa < 0 || machine.numa_nodes[static_cast<size_t>(at.numa)].id < 0;
}

std::map<int, std::vector<int>> rails_by_hca(const topology::RailPlan& plan) {
  std::map<int, std::vector<int>> rails;
  for (size_t i = 0; i < plan.rails.size(); ++i) {
    rails[plan.rails[i].port.hca].push_back(static_cast<int>(i));
  }
  return rails;
}

}  // namespace gdr::tools::doctor
