#include "softhca/datapath/fault_events.h"

#include "softhca/datapath/engine_wake.h"

namespace softhca {

namespace {

// Returns the event of the responder when it answers with the NAK that `status` stands for, -1 when
// it sends none (IBTA 9.9.3 and 11.6.3.2).
int event_of_nak(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_REM_ACCESS_ERR:
      return IBV_EVENT_QP_ACCESS_ERR;
    case IBV_WC_REM_INV_REQ_ERR:
      return IBV_EVENT_QP_REQ_ERR;
    case IBV_WC_REM_OP_ERR:
      return IBV_EVENT_QP_FATAL;
    default:
      return -1;
  }
}

void take_port_down(ArenaHeader& header, const EventTrigger& trigger) {
  for (uint32_t port = 1; port <= kMaxPorts; ++port) {
    if (trigger.cut_port != 0 && trigger.cut_port != port) continue;
    header.ports[trigger.cut_device][port - 1].state.store(IBV_PORT_DOWN);
  }
}

// Returns true when the fault is on the port whose requests it counts.
bool on_own_port(const EventTrigger& trigger) {
  return trigger.cut_device == trigger.device &&
         (trigger.cut_port == 0 || trigger.cut_port == trigger.port);
}

class Event {
 public:
  Event(QueuePair& qp, const Wqe& wqe, Moment moment) : qp_(qp), wqe_(wqe), moment_(moment) {}

  // Counts the request in the triggers of the process at one end.
  void count(const Peer& owner, End end) {
    TriggerTable& table = owner.arena().header().triggers;
    const uint32_t count = table.count.load(std::memory_order_acquire);
    const SharedQp& at = end == End::kRequester ? qp_.shared() : qp_.remote();
    for (uint32_t i = 0; i < count; ++i) {
      EventTrigger& trigger = table.entries[i];
      if (trigger.end != end || trigger.moment != moment_ || trigger.device != at.device ||
          trigger.port != at.port || (trigger.opcodes >> wqe_.opcode & 1) == 0) {
        continue;
      }
      if (trigger.met.fetch_add(1) + 1 == trigger.nth) happen(owner, trigger);
    }
  }
  const Interruption& result() const { return result_; }

 private:
  void happen(const Peer& owner, EventTrigger& trigger) {
    switch (trigger.cut) {
      case Cut::kPortDown:
        take_port_down(owner.arena().header(), trigger);
        result_.cut = result_.cut || on_own_port(trigger);
        break;
      case Cut::kQpError:
        if (!on_own_port(trigger)) break;
        if (trigger.end == End::kResponder) qp_.fail_remote(IBV_EVENT_QP_FATAL);
        result_.cut = true;
        break;
      case Cut::kStatus:
        fail_request(trigger);
        break;
      case Cut::kNothing:
        break;
    }
    trigger.request = {wqe_.wr_id, wqe_.opcode, moment_};
    trigger.fired.store(1);
    wake_engine(owner.arena().header());
  }

  void fail_request(const EventTrigger& trigger) {
    const auto status = static_cast<ibv_wc_status>(trigger.status);
    result_.cut = true;
    if (trigger.end == End::kResponder) {
      result_.receive_status = status;
      return;
    }
    result_.status = status;
    int event = event_of_nak(status);
    if (event >= 0 && qp_.connected()) qp_.fail_remote(event);
  }

  QueuePair& qp_;
  const Wqe& wqe_;
  const Moment moment_;
  Interruption result_;
};

}  // namespace

Interruption reach(QueuePair& qp, Wqe& wqe, Moment moment, bool locked) {
  const uint32_t bit = 1u << static_cast<uint32_t>(moment);
  if ((wqe.reached & bit) != 0) return {};
  wqe.reached |= bit;
  Event event(qp, wqe, moment);
  SharedLock lock;
  if (qp.connected() && !locked) lock = SharedLock(qp.remote().mutex);
  event.count(qp.process().self(), End::kRequester);
  if (qp.connected()) event.count(qp.peer(), End::kResponder);
  return event.result();
}

ibv_wc_status answer_to_failed_receive(ibv_wc_status theirs) {
  if (theirs == IBV_WC_WR_FLUSH_ERR) return IBV_WC_SUCCESS;
  return theirs == IBV_WC_LOC_LEN_ERR ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_OP_ERR;
}

}  // namespace softhca
