#include "topology/live/rail_log.h"

#include <set>

#include "topology/live/gdr_verdict.h"

namespace gdr::topology {
namespace {

std::string gpu_line(const RailDecision& decision, size_t index) {
  const Gpu& gpu = decision.machine.gpus[index];
  const Rail* first = decision.plan.first_rail_of(index);
  std::string line = "map GPU" + std::to_string(index) + " " + gpu.bdf.to_string();
  if (first == nullptr) return line + " no rail: no HCA port is usable";
  std::string numbers, ports;
  for (const Rail* rail : decision.plan.rails_of(index)) {
    numbers += (numbers.empty() ? "" : ",") + std::to_string(rail->id);
    ports += (ports.empty() ? "" : ",") + port_label(decision.machine, rail->port);
  }
  const GdrVerdict verdict = gdr_verdict(decision, index, static_cast<size_t>(first->port.hca));
  return line + " rail " + numbers + " " + ports + " path " +
         to_string(decision.plan.gpus[index].path) + " GPUDirect " +
         (verdict.direct ? "yes: " : "no: ") + verdict.reason;
}

}  // namespace

std::vector<std::string> describe(const RailDecision& decision) {
  std::vector<std::string> lines;
  std::set<int> served;
  for (size_t gpu = 0; gpu < decision.machine.gpus.size(); ++gpu) {
    lines.push_back(gpu_line(decision, gpu));
    served.insert(decision.plan.gpus[gpu].rails.begin(), decision.plan.gpus[gpu].rails.end());
  }
  if (decision.machine.gpus.empty())
    lines.push_back("map no GPU: rails are numbered by PCI address");
  for (size_t i = 0; i < decision.plan.rails.size() && !decision.machine.gpus.empty(); ++i) {
    const Rail& rail = decision.plan.rails[i];
    if (served.count(static_cast<int>(i)) > 0) continue;
    lines.push_back("map rail " + std::to_string(rail.id) + " " +
                    port_label(decision.machine, rail.port) +
                    (rail.usable ? " serves no GPU of its own" : " not usable: " + rail.why_not));
  }
  for (const ExcludedPort& one : decision.plan.excluded) {
    lines.push_back("map " + port_label(decision.machine, one.port) + " excluded: " + one.reason);
  }
  return lines;
}

}  // namespace gdr::topology
