#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tools/prediction/rail_agreement.h"
#include "tools/topo/svg_canvas.h"

namespace gdr::tools::topo {
namespace {

constexpr double kCharWidth = 7;
constexpr size_t kMaxDifferences = 8;

// What several names have in common: the reason of a verdict or an exclusion.
struct Reason {
  std::string text;
  std::vector<std::string> names;
};

void add_reason(const std::string& name, const std::string& text, std::vector<Reason>* reasons) {
  auto same = std::find_if(reasons->begin(), reasons->end(),
                           [&](const Reason& one) { return one.text == text; });
  if (same == reasons->end()) same = reasons->insert(reasons->end(), Reason{text, {}});
  same->names.push_back(name);
}

// Returns the reasons, which boxes and lines do not show: why pairs are without GPUDirect RDMA in
// one direction or both, why no GPU uses a rail, and why ports are excluded.
std::vector<Reason> reasons_of(const RailDecision& decision) {
  const RailPlan& plan = decision.plan;
  std::vector<Reason> reasons;
  for (const RailPair& pair : rail_pairs(decision)) {
    const std::string port = port_label(decision.machine, plan.rails[pair.rail].port);
    if (!pair.direct) add_reason(gpu_label(pair.gpu) + " and " + port, pair.verdict, &reasons);
  }
  for (size_t i = 0; i < plan.rails.size(); ++i) {
    const Rail& rail = plan.rails[i];
    if (!gpus_of_rail(plan, i).empty()) continue;
    add_reason(port_label(decision.machine, rail.port),
               rail.usable ? "no GPU uses it" : rail.why_not, &reasons);
  }
  for (const ExcludedPort& one : plan.excluded) {
    add_reason(port_label(decision.machine, one.port), "excluded: " + one.reason, &reasons);
  }
  return reasons;
}

}  // namespace

double draw_legend(pugi::xml_node svg, const RailDecision& decision, double width, double y) {
  pugi::xml_node legend = svg.append_child("g");
  set(legend, "id", "legend");
  std::vector<std::string> notes = {
      "A rail's GPU and port share its colour. Solid line: GPUDirect RDMA in both directions; "
      "dashed: not in both. Grey: excluded, or no rail.",
      "Each line begins at its path class and the narrowest PCIe link on the path, by the best "
      "speed and width that links support."};
  const topology::nccl::Prediction& prediction = decision.prediction;
  if (!prediction.failure().empty()) {
    notes.push_back(release_text(prediction.settings()) +
                    " fails on this machine: " + prediction.failure());
  }
  const std::vector<std::string> different =
      topology::sentences(decision.machine, topology::disagreements(decision));
  const size_t shown = std::min(different.size(), kMaxDifferences);
  for (size_t i = 0; i < shown; ++i) notes.push_back(different[i]);
  if (shown < different.size()) {
    notes.push_back(fmt::format("and {} more GPUs", different.size() - shown));
  }
  for (const Reason& one : reasons_of(decision)) {
    notes.push_back(fmt::format("{} ({})", one.text, fmt::join(one.names, ", ")));
  }
  const auto fitting = static_cast<size_t>((width - 2 * kMargin) / kCharWidth);
  for (const std::string& note : notes) {
    y += kRowHeight;
    add_text(legend, kMargin, y, note, "small", fitting);
  }
  return y + kRowHeight;
}

}  // namespace gdr::tools::topo
