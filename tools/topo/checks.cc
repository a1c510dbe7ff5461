#include "tools/topo/checks.h"

#include <algorithm>
#include <utility>

namespace gdr::tools::topo {
namespace {

const PciState kUnknownState;

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
bool any_port(const Machine& machine, Matches&& matches) {
  return std::any_of(machine.hcas.begin(), machine.hcas.end(), [&](const Hca& hca) {
    return std::any_of(hca.ports.begin(), hca.ports.end(),
                       [&](const Port& port) { return matches(hca, port); });
  });
}

}  // namespace

const PciState& CheckInput::state_of(const std::optional<Bdf>& bdf) const {
  auto found = bdf.has_value() ? states.find(*bdf) : states.end();
  return found == states.end() ? kUnknownState : found->second;
}

Findings check_machine(const Inspection& inspection, const PciStates& states) {
  const CheckInput input{inspection, states};
  Findings found;
  for (auto check :
       {check_links, check_gpu_links, check_ports, check_rails, check_missing_gpus, check_numa}) {
    check(input, &found);
  }
  for (const Finding& finding : inspection.decision.findings) {
    // check_ports() judges slow links with more care.
    const bool is_judged = finding.kind == FindingKind::kSlowLink && !input.machine().gpus.empty();
    if (finding.severity != Severity::kInfo && !is_judged) found.push_back(finding);
  }
  return found;
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
  const bool first_is_up = any_port(machine, [&](const Hca& hca, const Port& other) {
    return other.state == Port::State::kActive && is_same_card(hca, own_hca) &&
           position_of(hca, other) < at;
  });
  const bool peer_is_up = any_port(machine, [&](const Hca& hca, const Port& other) {
    return other.state != Port::State::kDown && hca.ids == own_hca.ids &&
           position_of(hca, other) == at;
  });
  return first_is_up && !peer_is_up;
}

std::map<int, std::vector<int>> rails_by_hca(const RailPlan& plan) {
  std::map<int, std::vector<int>> rails;
  for (size_t i = 0; i < plan.rails.size(); ++i) {
    rails[plan.rails[i].port.hca].push_back(static_cast<int>(i));
  }
  return rails;
}

}  // namespace gdr::tools::topo
