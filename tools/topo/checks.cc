#include "tools/topo/checks.h"

namespace gdr::tools::topo {
namespace {

const PciState kUnknownState;

}  // namespace

const PciState& CheckInput::state_of(const std::optional<Bdf>& bdf) const {
  auto found = bdf.has_value() ? states.find(*bdf) : states.end();
  return found == states.end() ? kUnknownState : found->second;
}

void add_fault(CheckReport* report, Check check, std::string subject, std::string text,
               std::string fix) {
  report->faults.push_back(
      {check, {Severity::kWarning, std::move(subject), std::move(text), std::move(fix)}});
}

std::string gpu_name(const Machine& machine, size_t gpu) {
  return "GPU" + std::to_string(gpu) + " (" + machine.gpus[gpu].bdf.to_string() + ")";
}

std::string hca_name(const Machine& machine, size_t hca) {
  const Hca& one = machine.hcas[hca];
  return one.bdf.has_value() ? one.name + " (" + one.bdf->to_string() + ")" : one.name;
}

std::map<int, std::vector<int>> rails_by_hca(const RailPlan& plan) {
  std::map<int, std::vector<int>> rails;
  for (size_t i = 0; i < plan.rails.size(); ++i) {
    rails[plan.rails[i].port.hca].push_back(static_cast<int>(i));
  }
  return rails;
}

}  // namespace gdr::tools::topo
