#include "tools/prediction/rules.h"

#include <algorithm>

namespace gdr::topology::nccl {
namespace {

void set_graph_facts(Rules* rules) {
  const Release& is = rules->release;
  rules->knows_c2c = is >= Release{2, 26, 0};
  rules->knows_pci_peers = is >= Release{2, 22, 0};
  rules->has_dev_nodes = is >= Release{2, 30, 0};
  rules->knows_partitions = is >= Release{2, 30, 5};
  rules->joins_unknown_numa = is >= Release{2, 23, 0} || is < Release{2, 21, 0};
  rules->nic_per_function = is >= Release{2, 24, 0};
  rules->fuses_ranks = is >= Release{2, 21, 0};
  rules->knows_recent_cpus = is >= Release{2, 26, 0};
  if (is < Release{2, 27, 5}) rules->sm100_nvlink = 40.0F;
  if (is < Release{2, 25, 0}) rules->sm100_nvlink = 20.6F;
  if (is < Release{2, 26, 0}) rules->cpu_search = CpuSearch::kSwitches;
  if (is < Release{2, 22, 0}) rules->cpu_search = CpuSearch::kAnyDevice;
}

void set_route_facts(Rules* rules) {
  const Release& is = rules->release;
  rules->class_first = is >= Release{2, 30, 5};
  rules->fastest_cpu = is >= Release{2, 30, 5};
  rules->p2p_over_any_cpu = is < Release{2, 23, 0};
  rules->joins_c2c_and_phb = is >= Release{2, 27, 5};
  if (is < Release{2, 29, 0}) rules->p2c = P2c::kAllPairs;
  if (is < Release{2, 27, 5}) rules->p2c = P2c::kPhbPairs;
  if (is < Release{2, 27, 0}) rules->p2c = P2c::kNone;
  rules->p2c_is_after_pxn = rules->p2c == P2c::kPhbPairs;
  rules->pxn_over_c2c_known = is >= Release{2, 27, 0};
  rules->pxn_over_c2c = is >= Release{2, 28, 0};
  if (is < Release{2, 27, 5}) rules->pxn_beyond = PathClass::kPxb;
  rules->pxn_needs_gpudirect = is >= Release{2, 30, 0};
  rules->diverts_near_only = is >= Release{2, 21, 0};
}

void set_device_facts(Rules* rules) {
  const Release& is = rules->release;
  if (is < Release{2, 25, 0}) rules->max_channels = 32;
  rules->has_devices_policy = is >= Release{2, 28, 0};
  rules->counts_from_zero = is >= Release{2, 30, 5};
  rules->gdr_c2c_default = is >= Release{2, 27, 0};
  if (is < Release{2, 29, 0}) rules->gdr_over_c2c = GdrOverC2c::kAsC2c;
  if (is < Release{2, 26, 0}) rules->gdr_over_c2c = GdrOverC2c::kNever;
}

}  // namespace

Rules Rules::of(Release release) {
  Rules rules;
  rules.release = std::clamp(release, kOldestRelease, kNewestRelease);
  set_graph_facts(&rules);
  set_route_facts(&rules);
  set_device_facts(&rules);
  return rules;
}

int Rules::rank(PathClass path) const {
  if (p2c_is_after_pxn && path == PathClass::kP2c) return static_cast<int>(PathClass::kPxn);
  if (p2c_is_after_pxn && path == PathClass::kPxn) return static_cast<int>(PathClass::kP2c);
  return static_cast<int>(path);
}

bool Rules::knows(PathClass path) const {
  if (path == PathClass::kP2c) return p2c != P2c::kNone;
  return path != PathClass::kC2c || knows_c2c;
}

std::optional<PathClass> Rules::level(std::optional<PathClass> set) const {
  return set.has_value() && knows(*set) ? set : std::nullopt;
}

}  // namespace gdr::topology::nccl
