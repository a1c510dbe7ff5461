#include "transport/pairs/pair_plan.h"

#include <algorithm>

namespace gdr::transport {
namespace {

// The receiver's plan for the pairs of the sender's.
PairPlan plan_other_end(size_t active, size_t standby, const PairPlan& sender) {
  PairPlan plan;
  size_t actives = 0;
  size_t standbys = 0;
  for (const PairPlace& place : sender) {
    size_t rail = 0;
    if (!place.standby) {
      rail = actives++ % active;
    } else if (standby > 0) {
      rail = active + standbys++ % standby;
    } else {
      rail = active - 1 - standbys++ % active;
    }
    plan.push_back({static_cast<uint32_t>(rail), place.standby});
  }
  return plan;
}

// Whether a pair before that one is between the same two rails.
bool repeats_another(const PairPlan& sender, const PairPlan& receiver, size_t pair) {
  for (size_t i = 0; i < pair; ++i) {
    if (sender[i].rail == sender[pair].rail && receiver[i].rail == receiver[pair].rail) return true;
  }
  return false;
}

}  // namespace

PairPlan plan_sender_pairs(size_t active, size_t standby, int qps_per_rail, ListenerRails peer) {
  const size_t spare = standby > 0 ? standby : size_t{peer.has_spare()};
  const size_t most = (wire::kMaxQps - spare) / active * active;
  const size_t turns = std::max<size_t>(1, (peer.active + active - 1) / active);
  const size_t count = std::min(active * turns * static_cast<size_t>(qps_per_rail), most);
  PairPlan plan;
  for (size_t i = 0; i < count; ++i) plan.push_back({static_cast<uint32_t>(i % active), false});
  for (size_t i = 0; i < spare; ++i) {
    const size_t rail = standby > 0 ? active + i : active - 1;
    plan.push_back({static_cast<uint32_t>(rail), true});
  }
  if (standby > 0 || spare == 0) return plan;
  const PairPlan receiver = plan_other_end(peer.active, peer.standby, plan);
  if (repeats_another(plan, receiver, count)) plan.pop_back();
  return plan;
}

PairPlan plan_receiver_pairs(size_t active, size_t standby, const wire::EndPoint& sender) {
  PairPlan hello;
  for (size_t i = 0; i < sender.qps; ++i) {
    hello.push_back({sender.qp[i].rail, sender.qp[i].standby != 0});
  }
  PairPlan plan = plan_other_end(active, standby, hello);
  for (size_t i = 0; i < plan.size(); ++i) {
    const bool spared = standby == 0 && repeats_another(hello, plan, i);
    plan[i].has_qp = !plan[i].standby || (!spared && sender.qp[i].number != 0);
  }
  return plan;
}

PairPlan plan_without(PairPlan plan, size_t active, size_t standby, const RailErrors& missing) {
  std::vector<uint32_t> left;
  for (uint32_t rail = 0; rail < active + standby; ++rail) {
    if (!missing.contains(rail) && (rail < active || left.empty() || left[0] >= active)) {
      left.push_back(rail);
    }
  }
  size_t next = 0;
  for (PairPlace& place : plan) {
    if (!missing.contains(place.rail)) continue;
    place.has_qp = !place.standby;
    if (!place.standby) place.rail = left[next++ % left.size()];
  }
  return plan;
}

int active_pairs(const PairPlan& plan) {
  return static_cast<int>(
      std::ranges::count_if(plan, [](const PairPlace& p) { return !p.standby; }));
}

int pairs_on_rail(const PairPlan& plan, uint32_t rail) {
  return static_cast<int>(std::ranges::count_if(
      plan, [rail](const PairPlace& p) { return p.rail == rail && p.has_qp; }));
}

}  // namespace gdr::transport
