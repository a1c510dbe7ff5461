#include <algorithm>

#include "transport/recovery/recovery.h"
#include "transport/recovery/recovery_parts.h"

namespace gdr::transport {
namespace {

using Pair = RecoveryState::Pair;
// The CQ that an event is of, or its QP; null where it is of neither.
const ibv_cq* cq_of(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      return event.element.cq;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      return event.element.qp->send_cq;
    default:
      return nullptr;
  }
}

Pair* pair_of(RecoveryState& state, const ibv_qp& qp) {
  const auto found = std::ranges::find_if(
      state.pairs, [&](const Pair& pair) { return state.io.at(pair.index).qp.get() == &qp; });
  return found == state.pairs.end() ? nullptr : &*found;
}

std::optional<uint32_t> rail_of(const RecoveryState& state, const ibv_cq* cq) {
  for (uint32_t rail = 0; rail < state.rails.size(); ++rail) {
    if (state.io.rails()[rail].cq() == cq) return rail;
  }
  return {};
}

// A QP that is of no pair is that of a flush, or is just being destroyed. A flush that cannot read
// loses its rail, as a read that fails does: the data path then reads over another one.
void lose_queue_pair(RecoveryState& state, const ibv_qp& qp, uint32_t rail) {
  Pair* pair = pair_of(state, qp);
  if (pair == nullptr) return lose_rail(state, rail, {wire::PairReason::kQueuePair});
  pair->agreement.on_failure({wire::PairReason::kQueuePair});
}

// What is written to a pair that stands by or is tried again is a probe or a statement, so that an
// error in it does not concern the connection. Returns false where it may be data.
bool lose_idle_pair(RecoveryState& state, const ibv_qp& qp) {
  Pair* pair = pair_of(state, qp);
  if (pair == nullptr) return false;
  const bool carries = !pair->stands_by || pair->arrivals.count.load() != 0;
  if (carries && pair->agreement.usable()) return false;
  pair->agreement.on_failure({wire::PairReason::kQueuePair});
  return true;
}

void set_port(RecoveryState& state, uint32_t rail, bool active) {
  state.rails[rail].port_down = !active;
  for (Pair& pair : state.pairs) {
    const bool given_up = pair.outlook != RecoveryState::Outlook::kReturns;
    if (pair.rail == rail) pair.agreement.returns().set_port_active(active && !given_up);
  }
}

void lose_for_good(RecoveryState& state, Pair& pair, const PairCause& cause) {
  if (!state.io.is_rail_missing(pair.index)) pair.agreement.on_failure(cause, /*known=*/true);
}

bool is_usable_beside(const RecoveryState& state, uint32_t rail) {
  return std::ranges::any_of(state.pairs, [&](const Pair& pair) {
    return pair.rail != rail && !state.is_port_down(pair) && pair.agreement.usable();
  });
}

// A CQ that no rail has was given back; another connection may have one at its address by now.
bool take_event(RecoveryState& state, const HcaContext& hca, const ibv_async_event& event) {
  const ibv_cq* cq = cq_of(event);
  const std::optional<uint32_t> rail_of_cq = cq != nullptr ? rail_of(state, cq) : std::nullopt;
  if (cq != nullptr && !rail_of_cq) return true;
  switch (event.event_type) {
    case IBV_EVENT_DEVICE_FATAL:
      lose_hca(state, hca);
      return true;
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_PORT_ACTIVE:
      ++state.port_events;
      for (uint32_t rail = 0; rail < state.rails.size(); ++rail) {
        const Device& device = state.device(rail);
        if (device.hca.get() != &hca || device.port != event.element.port_num) continue;
        set_port(state, rail, event.event_type == IBV_EVENT_PORT_ACTIVE);
      }
      return true;
    case IBV_EVENT_QP_FATAL:
      lose_queue_pair(state, *event.element.qp, *rail_of_cq);
      return true;
    case IBV_EVENT_CQ_ERR:
      // What has arrived may still be in it: that is counted when the data path finds it empty.
      give_up_rail(state, *rail_of_cq);
      return true;
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      return lose_idle_pair(state, *event.element.qp);
    default:
      return false;
  }
}

}  // namespace

bool RecoverySteps::on_event(const HcaContext& hca, const ibv_async_event& event) {
  std::lock_guard lock(state_.mutex);
  if (state_.closed || !state_.recovers || !take_event(state_, hca, event)) return false;
  take_steps(state_, state_.now());
  return true;
}

// Without the mutex: firmware may not answer. What the port reports meanwhile counts.
void query_port(RecoveryState& state, uint32_t rail, RecoveryTime now, RecoveryLock& lock) {
  if (now < state.rails[rail].query_at) return;
  state.rails[rail].query_at = now + std::chrono::seconds(1);
  const uint32_t events = state.port_events;
  bool active = false;
  {
    const Unlocked unlocked(state, lock);
    active = state.io.is_port_active(rail);
  }
  if (!state.closed && events == state.port_events) set_port(state, rail, active);
}

void RecoverySteps::look_at_rails() {
  RecoveryLock lock(state_.mutex);
  if (!state_.recovers || state_.closed || state_.link->failed()) return;
  for (uint32_t rail = 0; rail < state_.rails.size() && !state_.closed; ++rail) {
    const HcaContext& hca = *state_.device(rail).hca;
    bool gone = false;
    {
      const Unlocked unlocked(state_, lock);
      gone = hca.is_gone();
    }
    if (state_.closed) return;
    if (gone) lose_hca(state_, hca);
    if (!gone) query_port(state_, rail, state_.now(), lock);
  }
  take_steps(state_, state_.now());
}

void lose_rail(RecoveryState& state, uint32_t rail, PairCause cause) {
  for (Pair& pair : state.pairs) {
    if (pair.rail == rail) pair.agreement.on_failure(cause);
  }
}

// An HCA that has reported a fatal error has to be opened anew, which no connection does.
void lose_hca(RecoveryState& state, const HcaContext& hca) {
  for (uint32_t rail = 0; rail < state.rails.size(); ++rail) {
    if (state.device(rail).hca.get() == &hca) give_up_rail(state, rail);
  }
}

void give_up_rail(RecoveryState& state, uint32_t rail) {
  for (Pair& pair : state.pairs) {
    if (pair.rail != rail) continue;
    pair.give_up();
    lose_for_good(state, pair, {wire::PairReason::kDeviceLost});
  }
}

void withdraw(RecoveryState& state, Pair& pair, int err) {
  pair.outlook = std::max(pair.outlook, RecoveryState::Outlook::kWithdrawn);
  pair.agreement.returns().set_port_active(false);
  lose_for_good(state, pair, {.reason = wire::PairReason::kWithdrawn, .sys_errno = err});
}

// Without another rail, the HCA's retries may outlast a short interruption, as they do on a
// connection of one rail.
void lose_ports_that_are_down(RecoveryState& state) {
  for (uint32_t rail = 0; rail < state.rails.size(); ++rail) {
    if (state.rails[rail].port_down && is_usable_beside(state, rail)) {
      lose_rail(state, rail, {wire::PairReason::kPortDown});
    }
  }
}

bool RecoverySteps::waits_for_a_port() const {
  std::lock_guard lock(state_.mutex);
  if (state_.closed || state_.link->failed() || !state_.is_any_usable()) return false;
  return std::ranges::none_of(state_.pairs, [this](const Pair& pair) {
    return pair.agreement.usable() && !state_.is_port_down(pair);
  });
}

}  // namespace gdr::transport
