// What follows from the asynchronous events of HCAs.

#include <cerrno>
#include <memory>

#include "base/log.h"
#include "drivers/verbs/wc_text.h"
#include "transport/watch/watcher.h"

namespace gdr::transport {
namespace {

constexpr char kLikelyCause[] =
    ". Likely cause: a cable, a transceiver or a switch port has failed. Fix: look at `dmesg` and "
    "the switch's log";

bool is_fatal(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      return true;
    default:
      return false;
  }
}

bool concerns_port(ibv_event_type type) {
  return type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_PORT_ACTIVE;
}

// Whether the event of that HCA concerns a rail: by the member of the union that
// ibv_get_async_event(3) names for its type; of a QP by its CQ, as QPs come and go and their
// addresses are used again.
bool concerns(const ibv_async_event& event, const HcaContext& hca, const WatchedRail& rail) {
  if (event.event_type == IBV_EVENT_DEVICE_FATAL) return rail.hca.get() == &hca;
  if (event.event_type == IBV_EVENT_CQ_ERR) return rail.cq == event.element.cq;
  if (!concerns_port(event.event_type)) return rail.cq == event.element.qp->send_cq;
  return rail.hca.get() == &hca && rail.name.port == event.element.port_num;
}

}  // namespace

// Of an HCA that was removed kernels report the end by an event, by an error of the descriptor, or
// by both.
bool Watcher::read_event(const HcaContext& hca, bool has_ended) {
  ibv_async_event event{};
  errno = 0;
  if (hca.api().get_async_event(hca.context(), &event) != 0) {
    const int err = errno;
    if (!has_ended && (err == 0 || err == EAGAIN || err == EINTR)) return true;
    event.event_type = IBV_EVENT_DEVICE_FATAL;
    take_event(hca, event, " does not report events any more (errno " + std::to_string(err) + ")");
    return false;
  }
  // On every path: ibv_destroy_qp waits until the events of its QP are acknowledged.
  auto acknowledge = [&hca](ibv_async_event* taken) { hca.api().ack_async_event(taken); };
  const std::unique_ptr<ibv_async_event, decltype(acknowledge)> acknowledged(&event, acknowledge);
  take_event(hca, event,
             std::string(" reports \"") + hca.api().event_type_str(event.event_type) + "\"");
  return true;
}

void Watcher::take_event(const HcaContext& hca, const ibv_async_event& event,
                         const std::string& what) {
  hca.on_event(event.event_type);
  std::string text = hca.name();
  if (concerns_port(event.event_type)) text += ":" + std::to_string(event.element.port_num);
  text += what;
  if (is_fatal(event.event_type)) {
    take_fatal(hca, event, text);
  } else if (concerns_port(event.event_type)) {
    take_port(hca, event, text);
  } else {
    GDR_INFO(log::kNet, "%s", text.c_str());
  }
}

// Connections that recover report what they lose themselves.
void Watcher::take_fatal(const HcaContext& hca, const ibv_async_event& event,
                         const std::string& text) {
  const auto is_concerned = [&](const WatchedRail& rail) { return concerns(event, hca, rail); };
  std::vector<std::shared_ptr<PeerLink>> concerned;
  size_t recovering = 0;
  for (const WatchedLink& watched : links_.with(is_concerned)) {
    if (watched.recovery != nullptr && watched.recovery->steps().on_event(hca, event)) {
      ++recovering;
    } else {
      concerned.push_back(watched.link);
    }
  }
  // A QP or CQ that no connection has is that of a handshake, which reports its failure itself.
  if (concerned.empty() && (recovering > 0 || event.event_type != IBV_EVENT_DEVICE_FATAL)) {
    GDR_INFO(log::kNet, "%s", text.c_str());
    return;
  }
  // One fault raises an event for each of an HCA's QPs and CQs.
  const std::string cause = hca.name() + " event " + std::to_string(event.event_type);
  const std::string hint = verbs::event_hint(event.event_type);
  const std::string effect =
      events_fail_ ? "; fails " : "; as NCCL_IB_RETURN_ASYNC_EVENTS=0 asks, it does not fail ";
  failures_.warn(cause, text, effect + counted(concerned.size(), "connection") + ". " + hint,
                 Clock::now());
  if (!events_fail_) return;
  for (const auto& link : concerned) {
    link->fail_link(Error{Code::kSystem, link->description() + ": " + text + ". " + hint}, true);
  }
}

// The port is not lost to connections whose last one it is: the HCA's retries may outlast the
// interruption.
void Watcher::take_port(const HcaContext& hca, const ibv_async_event& event,
                        const std::string& text) {
  const auto is_concerned = [&](const WatchedRail& rail) { return concerns(event, hca, rail); };
  const std::vector<WatchedLink> users = links_.with(is_concerned);
  size_t concerned = 0;  // connections
  for (const WatchedLink& user : users) {
    const bool recovers = user.recovery != nullptr && user.recovery->steps().on_event(hca, event);
    if (!recovers || user.recovery->steps().waits_for_a_port()) ++concerned;
  }
  if (event.event_type == IBV_EVENT_PORT_ERR && concerned > 0) {
    const std::string effect = "; " + counted(concerned, "connection") +
                               " cannot go on without it: the HCA retries what is sent by "
                               "NCCL_IB_TIMEOUT and NCCL_IB_RETRY_CNT, for 34 s by default; with "
                               "failover a rail may return for as long again. Then that is an "
                               "error";
    const std::string port = hca.name() + ":" + std::to_string(event.element.port_num);
    return failures_.warn(port, text, effect + kLikelyCause, Clock::now(), kWorstOfAPort);
  }
  // Where the port is used, NCCL_DEBUG=INFO alone shows that it goes down, and that it is back.
  const unsigned long subsystems = users.empty() ? log::kNet : log::kInit | log::kNet;
  GDR_INFO(subsystems, "%s%s", text.c_str(), users.empty() ? "; no connection uses this port" : "");
}

}  // namespace gdr::transport
