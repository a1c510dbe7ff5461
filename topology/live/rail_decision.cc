#include "topology/live/rail_decision.h"

#include <algorithm>
#include <set>

namespace gdr::topology {
namespace {

GdrPolicy policy_of(const config::Options& options, Notes* notes) {
  GdrPolicy policy;
  policy.read = options.gdr_read;
  policy.c2c = options.gdr_c2c;
  if (options.gdr_level.has_value()) {
    policy.level = options.gdr_level->path();
    if (!options.gdr_level->number_note().empty()) {
      notes->infos.push_back(options.gdr_level->number_note());
    }
  }
  return policy;
}

// The ports that NCCL_IB_HCA names in full; a prefix such as "mlx5" says nothing about any one.
std::vector<NamedPort> named_ports(const Machine& machine, const transport::HcaFilter& filter) {
  std::vector<NamedPort> named;
  for (const Hca& hca : machine.hcas) {
    for (const Port& port : hca.ports) {
      if (!filter.names_in_full(hca.name, port.number)) continue;
      const transport::HcaFilter::Entry* entry = filter.entry_for(hca.name, port.number);
      named.push_back({hca.name, port.number, entry == nullptr ? -1 : entry->rail});
    }
  }
  return named;
}

RailPlan make_plan(const Machine& machine, const PathTable& paths, const config::Options& options,
                   Notes* notes) {
  RailOptions rail_options{named_ports(machine, options.hcas), options.rail_map};
  Result<RailPlan> plan = plan_rails(machine, paths, rail_options);
  if (plan) return std::move(*plan);
  notes->warnings.push_back("GDR_NCCL_RAIL_MAP does not fit this machine and is not used: " +
                            plan.error().text);
  rail_options.map.reset();
  return *plan_rails(machine, paths, rail_options);  // fails only by its map
}

std::string verdict_text(const RailDecision& view, size_t gpu, size_t hca) {
  auto [send, receive] = gdr_verdicts(view.machine, view.paths, view.policy, gpu, hca);
  if (receive.direct == send.direct) return "GPUDirect " + to_string(receive);
  return "GPUDirect receive " + to_string(receive) + "; send " + to_string(send);
}

std::string gpu_line(const RailDecision& view, size_t index) {
  const Gpu& gpu = view.machine.gpus[index];
  const GpuRails& own = view.plan.gpus[index];
  std::string line = "map GPU" + std::to_string(index) + " " + gpu.bdf.to_string();
  if (own.rails.empty()) return line + " no rail: no HCA port is usable";
  std::string numbers, ports;
  for (int rail : own.rails) {
    const Rail& one = view.plan.rails[rail];
    numbers += (numbers.empty() ? "" : ",") + std::to_string(one.id);
    ports += (ports.empty() ? "" : ",") + port_label(view.machine, one.port);
  }
  return line + " rail " + numbers + " " + ports + " path " + to_string(own.path) + " " +
         verdict_text(view, index, static_cast<size_t>(view.plan.rails[own.rails[0]].port.hca));
}

}  // namespace

RailDecision decide(Machine machine, const config::Options& options, Notes notes) {
  GdrPolicy policy = policy_of(options, &notes);
  PathTable paths(machine);
  RailPlan plan = make_plan(machine, paths, options, &notes);
  return RailDecision{std::move(machine), std::move(paths), std::move(plan), policy,
                      std::move(notes)};
}

std::vector<std::string> describe(const RailDecision& view) {
  std::vector<std::string> lines;
  std::set<int> served;
  for (size_t gpu = 0; gpu < view.machine.gpus.size(); ++gpu) {
    lines.push_back(gpu_line(view, gpu));
    served.insert(view.plan.gpus[gpu].rails.begin(), view.plan.gpus[gpu].rails.end());
  }
  if (view.machine.gpus.empty()) lines.push_back("map no GPU found: rails in PCI order");
  for (size_t i = 0; i < view.plan.rails.size() && !view.machine.gpus.empty(); ++i) {
    const Rail& rail = view.plan.rails[i];
    if (served.count(static_cast<int>(i)) > 0) continue;
    lines.push_back("map rail " + std::to_string(rail.id) + " " +
                    port_label(view.machine, rail.port) +
                    (rail.usable ? " serves no GPU of its own" : " not usable: " + rail.why_not));
  }
  for (const ExcludedPort& other : view.plan.others) {
    lines.push_back("map " + port_label(view.machine, other.port) + " is no rail: " + other.reason);
  }
  return lines;
}

bool is_flat(const RailDecision& view) {
  if (view.machine.gpus.empty() || view.plan.rails.empty()) return false;
  auto path = [&](size_t gpu, const Rail& rail) {
    return view.paths.gpu_hca(gpu, static_cast<size_t>(rail.port.hca));
  };
  PathClass first = path(0, view.plan.rails[0]);
  if (first < PathClass::kPhb) return false;
  for (size_t gpu = 0; gpu < view.machine.gpus.size(); ++gpu) {
    for (const Rail& rail : view.plan.rails) {
      if (path(gpu, rail) != first) return false;
    }
  }
  return true;
}

}  // namespace gdr::topology
