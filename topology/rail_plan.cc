#include "topology/rail_plan.h"

namespace gdr::topology {

std::vector<const Rail*> RailPlan::rails_of(size_t gpu) const {
  std::vector<const Rail*> own;
  for (int position : gpus[gpu].rails) own.push_back(&rails[position]);
  return own;
}

const Rail* RailPlan::first_rail_of(size_t gpu) const {
  return gpus[gpu].rails.empty() ? nullptr : &rails[gpus[gpu].rails.front()];
}

int rail_of(const RailPlan& plan, PortRef port) {
  for (size_t i = 0; i < plan.rails.size(); ++i) {
    if (plan.rails[i].port == port) return static_cast<int>(i);
  }
  return -1;
}

std::vector<PortRef> usable_ports(const RailPlan& plan) {
  std::vector<PortRef> ports;
  for (const Rail& rail : plan.rails) {
    if (rail.usable) ports.push_back(rail.port);
  }
  return ports;
}

void set_own_paths(const PathTable& paths, RailPlan* plan) {
  for (size_t gpu = 0; gpu < plan->gpus.size(); ++gpu) {
    const Rail* first = plan->first_rail_of(gpu);
    if (first != nullptr) plan->gpus[gpu].path = paths.gpu_hca(gpu, first->port.hca);
  }
}

}  // namespace gdr::topology
