// What a Recovery does about ports and HCAs.
#include <algorithm>

#include "transport/recovery/recovery.h"

namespace gdr::transport {
namespace {

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

}  // namespace

// A CQ that no rail has was given back; another connection may have one at its address by now.
bool Recovery::on_event(const HcaContext& hca, const ibv_async_event& event) {
  std::lock_guard lock(mutex_);
  if (closed_ || !recovers_) return false;
  const ibv_cq* cq = cq_of(event);
  const std::optional<uint32_t> rail_of_cq = cq != nullptr ? rail_of(cq) : std::nullopt;
  if (cq != nullptr && !rail_of_cq) return true;
  switch (event.event_type) {
    case IBV_EVENT_DEVICE_FATAL:
      lose_hca(hca);
      break;
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_PORT_ACTIVE:
      ++port_events_;
      for (uint32_t rail = 0; rail < io_.rails().size(); ++rail) {
        const Device& device = io_.rails()[rail].device();
        if (device.hca.get() != &hca || device.port != event.element.port_num) continue;
        set_port(rail, event.event_type == IBV_EVENT_PORT_ACTIVE);
      }
      break;
    case IBV_EVENT_QP_FATAL:
      lose_queue_pair(*event.element.qp, *rail_of_cq);
      break;
    case IBV_EVENT_CQ_ERR:
      // What has arrived may still be in it: that is counted when the data path finds it empty.
      give_up_rail(*rail_of_cq);
      break;
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      if (!lose_idle_pair(*event.element.qp)) return false;
      break;
    default:
      return false;
  }
  run(now());
  return true;
}

// What is written to a pair that stands by or is tried again is a probe or a statement, so that an
// error in it does not concern the connection. Returns false where it may be data.
bool Recovery::lose_idle_pair(const ibv_qp& qp) {
  const std::optional<uint32_t> index = pair_of(qp);
  if (!index) return false;
  PairAgreement& agreement = pairs_[*index].agreement;
  const bool may_carry =
      agreement.usable() && (!io_.stands_by(*index) || arrivals_[*index].count.load() != 0);
  if (!may_carry) agreement.on_failure({wire::PairReason::kQueuePair});
  return !may_carry;
}

// A QP that is of no pair is that of a flush, or is just being destroyed. A flush that cannot read
// loses its rail, as a read that fails does: the data path then reads over another one.
void Recovery::lose_queue_pair(const ibv_qp& qp, uint32_t rail) {
  const std::optional<uint32_t> index = pair_of(qp);
  if (!index) return lose_rail(rail, {wire::PairReason::kQueuePair});
  pairs_[*index].agreement.on_failure({wire::PairReason::kQueuePair});
}

std::optional<uint32_t> Recovery::pair_of(const ibv_qp& qp) const {
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    if (io_.queue_pair(i) == &qp) return i;
  }
  return {};
}

std::optional<uint32_t> Recovery::rail_of(const ibv_cq* cq) const {
  for (uint32_t rail = 0; rail < io_.rails().size(); ++rail) {
    if (io_.rails()[rail].cq() == cq) return rail;
  }
  return {};
}

void Recovery::set_port(uint32_t rail, bool active) {
  port_down_[rail] = !active;
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    const bool given_up = pairs_[i].hopeless || pairs_[i].withdrawn;
    if (io_.rail(i) == rail) pairs_[i].agreement.set_port_active(active && !given_up);
  }
}

// An event may be lost. The state of a port counts where a pair is to be tried again, and where a
// port that was reported as down has not cost its pairs yet. Returns a pair of each such port.
std::vector<uint32_t> Recovery::ports_to_query(Clock::time_point now) const {
  std::vector<uint32_t> pairs;
  if (link_->failed()) return pairs;
  uint64_t known = 0;  // bit per rail
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    const uint32_t rail = io_.rail(i);
    const bool counts = pairs_[i].agreement.lost() || port_down_[rail];
    const bool later = now < ports_at_[rail];
    if (!counts || later || pairs_[i].hopeless || (known >> rail & 1) != 0) continue;
    known |= uint64_t{1} << rail;
    pairs.push_back(i);
  }
  return pairs;
}

void Recovery::query_ports(Clock::time_point now, uint32_t rails,
                           std::unique_lock<std::mutex>& lock) {
  for (uint32_t index : ports_to_query(now)) {
    if ((rails >> io_.rail(index) & 1) == 0) continue;
    ports_at_[io_.rail(index)] = now + std::chrono::seconds(1);
    const std::optional<bool> active = query_port(index, lock);
    if (closed_) return;
    if (active) set_port(io_.rail(index), *active);
  }
}

// Without the mutex: firmware may not answer. Nothing where the port has reported a change
// meanwhile, or the connection was closed.
std::optional<bool> Recovery::query_port(uint32_t index, std::unique_lock<std::mutex>& lock) {
  const uint32_t events = port_events_;
  bool active = false;
  {
    const UseOfRails use(this, &lock);
    active = io_.is_port_active(index);
  }
  return closed_ || events != port_events_ ? std::nullopt : std::optional(active);
}

void Recovery::look_at_rails() {
  std::unique_lock lock(mutex_);
  if (closed_ || !recovers_ || link_->failed()) return;
  for (const RailEnd& rail : io_.rails()) {
    const HcaContext& hca = *rail.device().hca;
    bool gone = false;
    {
      const UseOfRails use(this, &lock);
      gone = hca.is_gone();
    }
    if (gone) lose_hca(hca);
  }
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    if (pairs_[i].hopeless) continue;
    const std::optional<bool> active = query_port(i, lock);
    if (active) set_port(io_.rail(i), *active);
  }
  run(now());
}

void Recovery::lose_rail(uint32_t rail, PairCause cause) {
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    if (io_.rail(i) == rail) pairs_[i].agreement.on_failure(cause);
  }
}

// All its ports are gone. An HCA that has reported a fatal error has to be opened anew, which no
// connection does.
void Recovery::lose_hca(const HcaContext& hca) {
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    if (io_.rails()[io_.rail(i)].device().hca.get() == &hca) lose_device_of(i);
  }
}

void Recovery::lose_device_of(uint32_t index) {
  give_up(index);
  lose_for_good(index, {wire::PairReason::kDeviceLost});
}

// The log has reported of a pair that was lost before that it is used again when it returns.
void Recovery::lose_for_good(uint32_t index, const PairCause& cause) {
  Pair& pair = pairs_[index];
  const bool is_new = pair.logged && !(pair.agreement.cause() == cause);
  pair.agreement.on_known_cause(cause);
  if (is_new) hooks_.rail_lost(describe_loss(index, nullptr));
}

void Recovery::give_up(uint32_t index) {
  pairs_[index].hopeless = true;
  pairs_[index].stop_at = {};
  pairs_[index].agreement.set_port_active(false);
}

void Recovery::give_up_rail(uint32_t rail) {
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    if (io_.rail(i) == rail) lose_device_of(i);
  }
}

// A port that is down is given up at once where there is another rail. Without one, the HCA's
// retries may outlast a short interruption, as they do on a connection of one rail.
void Recovery::lose_ports_that_are_down() {
  for (uint32_t rail = 0; rail < port_down_.size(); ++rail) {
    if (port_down_[rail] && is_usable_beside(rail)) {
      lose_rail(rail, {wire::PairReason::kPortDown});
    }
  }
}

bool Recovery::waits_for_port(const HcaContext& hca, int port) const {
  std::lock_guard lock(mutex_);
  if (closed_ || link_->failed()) return false;
  bool waits = false;
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    const uint32_t rail = io_.rail(i);
    if (!pairs_[i].agreement.usable()) continue;
    if (!port_down_[rail]) return false;
    const Device& device = io_.rails()[rail].device();
    waits = waits || (device.hca.get() == &hca && device.port == port);
  }
  return waits;
}

bool Recovery::is_usable_beside(uint32_t rail) const {
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    const uint32_t other = io_.rail(i);
    if (other != rail && !port_down_[other] && pairs_[i].agreement.usable()) return true;
  }
  return false;
}

}  // namespace gdr::transport
