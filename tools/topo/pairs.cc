#include "tools/topo/pairs.h"

#include <fmt/format.h>

#include "tools/topo/colours.h"
#include "tools/topo/labels.h"

namespace gdr::topology {
namespace {

RailPair make_pair(const RailDecision& view, size_t gpu, size_t rail) {
  size_t hca = view.plan.rails[rail].port.hca;
  Verdicts verdicts = verdicts_of(view, gpu, hca);
  RailPair pair{gpu, rail, gpu_hca_text(view, gpu, hca),
                verdicts.send.direct && verdicts.receive.direct, ""};
  if (pair.direct) {
    pair.verdict = "GPUDirect";
  } else if (verdicts.receive.direct) {
    pair.verdict = "GPUDirect receive only: " + verdicts.send.reason;
  } else if (verdicts.send.direct) {
    pair.verdict = "GPUDirect send only: " + verdicts.receive.reason;
  } else {
    pair.verdict = "no GPUDirect: " + verdicts.receive.reason;
  }
  return pair;
}

}  // namespace

std::vector<RailPair> rail_pairs(const RailDecision& view) {
  std::vector<RailPair> pairs;
  for (size_t rail = 0; rail < view.plan.rails.size(); ++rail) {
    for (size_t gpu : gpus_of_rail(view.plan, rail)) pairs.push_back(make_pair(view, gpu, rail));
  }
  return pairs;
}

std::string gpu_colour(const RailPlan& plan, size_t gpu) {
  const std::vector<int>& rails = plan.gpus[gpu].rails;
  return rails.empty() ? kGrey : rail_colour(rails.front());
}

std::string hca_colour(const RailDecision& view, size_t hca) {
  for (size_t port = 0; port < view.machine.hcas[hca].ports.size(); ++port) {
    int rail = rail_of(view.plan, PortRef{static_cast<int>(hca), static_cast<int>(port)});
    if (rail >= 0) return rail_colour(rail);
  }
  return kGrey;
}

std::string gpu_rails_text(const RailPlan& plan, size_t gpu) {
  const std::vector<int>& rails = plan.gpus[gpu].rails;
  if (rails.empty()) return "no rail";
  std::string text;
  for (int rail : rails) text += fmt::format("{}{}", text.empty() ? "" : ", ", plan.rails[rail].id);
  return (rails.size() > 1 ? "rails " : "rail ") + text;
}

}  // namespace gdr::topology
