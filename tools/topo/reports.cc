#include "tools/topo/reports.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/prediction/rail_agreement.h"
#include "tools/topo/labels.h"

namespace gdr::tools::topo {
namespace {

// Returns "400 Gb/s" or, for different speeds of rails, "200-400 Gb/s".
std::string rail_speeds(const RailDecision& decision) {
  int least = 0, most = 0;
  for (const Rail& rail : decision.plan.rails) {
    const int speed = port_of(decision.machine, rail.port).speed_mbps;
    if (!rail.usable || speed == 0) continue;
    least = least == 0 ? speed : std::min(least, speed);
    most = std::max(most, speed);
  }
  if (most == 0) return "-";
  return least == most ? speed_text(most) : fmt::format("{:g}-{}", least / 1e3, speed_text(most));
}

// Returns the class of the longest path between a GPU and its own rail.
std::string farthest_path(const RailDecision& decision) {
  std::optional<PathClass> farthest;
  for (size_t gpu = 0; gpu < decision.machine.gpus.size(); ++gpu) {
    const Rail* rail = decision.plan.first_rail_of(gpu);
    if (rail == nullptr) continue;
    const PathClass path = path_between(decision, gpu, static_cast<size_t>(rail->port.hca));
    if (!farthest.has_value() || path > *farthest) farthest = path;
  }
  return farthest ? topology::to_string(*farthest) : "-";
}

size_t direct_gpus(const RailDecision& decision) {
  size_t direct = 0;
  for (size_t gpu = 0; gpu < decision.machine.gpus.size(); ++gpu) {
    const Rail* rail = decision.plan.first_rail_of(gpu);
    if (rail == nullptr) continue;
    const auto verdicts = verdicts_between(decision, gpu, static_cast<size_t>(rail->port.hca));
    if (verdicts.receive.direct && verdicts.send.direct) ++direct;
  }
  return direct;
}

std::string part_text(size_t part, size_t whole) {
  return part == whole ? std::to_string(whole) : fmt::format("{} of {}", part, whole);
}

}  // namespace

Summary summary_of(const std::string& node, const Inspection& inspection) {
  const RailDecision& decision = inspection.decision;
  const size_t gpus = decision.machine.gpus.size();
  const auto usable =
      static_cast<size_t>(std::count_if(decision.plan.rails.begin(), decision.plan.rails.end(),
                                        [](const Rail& rail) { return rail.usable; }));
  const std::vector<topology::Disagreement> different = topology::disagreements(decision);
  const bool follows =
      std::all_of(different.begin(), different.end(), [](const auto& one) { return one.as_good; });
  const bool predicted = gpus > 0 && !decision.prediction.devices().empty();
  return {node,
          std::to_string(gpus),
          std::to_string(decision.machine.hcas.size()),
          part_text(usable, decision.plan.rails.size()),
          rail_speeds(decision),
          farthest_path(decision),
          gpus == 0 ? "-" : part_text(direct_gpus(decision), gpus),
          !predicted ? "-" : (follows ? "rails" : "others")};
}

std::string summary_table(const std::vector<Summary>& summaries) {
  using Column = std::string Summary::*;
  constexpr Column kColumns[] = {&Summary::node,      &Summary::gpus,  &Summary::hcas,
                                 &Summary::rails,     &Summary::speed, &Summary::path,
                                 &Summary::gpudirect, &Summary::nccl};
  std::vector<Summary> rows = {
      {"node", "GPUs", "HCAs", "rails", "speed", "path", "GPUDirect", "NCCL uses"}};
  rows.insert(rows.end(), summaries.begin(), summaries.end());
  std::vector<std::string> lines(rows.size());
  for (Column column : kColumns) {
    size_t width = 0;
    for (const Summary& row : rows) width = std::max(width, (row.*column).size());
    for (size_t i = 0; i < rows.size(); ++i) {
      lines[i] += fmt::format("{:<{}}", rows[i].*column, width + 2);
    }
  }
  std::string text;
  for (std::string& line : lines) {
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace gdr::tools::topo
