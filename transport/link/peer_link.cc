#include "transport/link/peer_link.h"

#include <utility>

#include "base/log.h"

namespace gdr::transport {
namespace {

// Time without a socket after which nothing is expected of it any more.
constexpr std::chrono::seconds kDeafAfter{3};
// Proxies close what has carried no bytes for an hour (Envoy), 10 minutes (nginx) or 5 (many load
// balancers); the kernel's keepalive probes do not get through them.
constexpr std::chrono::minutes kPayloadInterval{4};
// Time between the probes of a link without a socket. A dead peer is found so much later, and by
// the HCA's own retries: 30 to 40 s with the defaults of NCCL_IB_TIMEOUT and NCCL_IB_RETRY_CNT.
constexpr std::chrono::seconds kProbeInterval{10};
// Time in which the peer's watcher thread, which waits for nothing else, answers a query.
constexpr std::chrono::seconds kAnswerTime{5};
// Two ticks that are further apart show that this process was stopped itself.
constexpr std::chrono::seconds kLateTick{3};

}  // namespace

std::string to_string(const PeerProcess& process) {
  return "process " + std::to_string(process.pid) + " on " + process.host;
}

PeerLink::PeerLink(FrameChannel channel, std::string description, const char* role,
                   PeerLinkOptions options)
    : description_(std::move(description)),
      role_(role),
      options_(std::move(options)),
      fd_(channel.fd()),
      channel_(std::move(channel)) {}

void PeerLink::fail_link(Error error, bool notify_peer) {
  std::string text = error.text;
  {
    std::lock_guard lock(mutex_);
    if (failed()) return;
    failure_ = std::move(error);
    notifies_peer_ = notify_peer;
    set(kFailed, true);
  }
  if (notify_peer) send_frame(wire::FrameKind::kFailed, text);
}

Error PeerLink::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void PeerLink::send_bye() {
  std::lock_guard lock(mutex_);
  says_bye_ = true;
  channel_.queue_text(wire::FrameKind::kBye, "");
  (void)channel_.flush_and_end();
}

void PeerLink::send_statement(const wire::PairStatement& statement) {
  std::lock_guard lock(mutex_);
  channel_.queue(wire::FrameKind::kPair, &statement, sizeof(statement));
  (void)channel_.flush();
}

// Frames are small compared with the socket's buffer. They inform the peer sooner and better than
// its own time-outs would, but nothing depends on them.
void PeerLink::send_frame(wire::FrameKind kind, const std::string& text) {
  std::lock_guard lock(mutex_);
  channel_.queue_text(kind, text);
  (void)channel_.flush();
}

bool PeerLink::on_readable(Clock::time_point now) {
  for (;;) {
    Result<std::optional<Frame>> frame = channel_.receive();
    if (!frame) {
      on_socket_end(frame.error(), now);
      return false;
    }
    if (!frame->has_value()) return true;
    on_frame(**frame);
  }
}

void PeerLink::on_frame(const Frame& frame) {
  switch (frame.kind) {
    case wire::FrameKind::kBye:
      peer_closed_ = true;
      break;
    case wire::FrameKind::kFailed:
      fail_link(Error{Code::kRemote, description_ + ": the peer reports: " + frame.text()}, false);
      break;
    case wire::FrameKind::kStateQuery:
      send_frame(wire::FrameKind::kState, state_text());
      break;
    case wire::FrameKind::kState:
      if (std::exchange(queried_, false)) {
        GDR_WARN("watchdog: %s: the peer reports: %s", description_.c_str(), frame.text().c_str());
      }
      break;
    case wire::FrameKind::kPair:
      on_pair(frame);
      break;
    case wire::FrameKind::kKeepAlive:
      break;
    default:
      fail_unexpected();
      break;
  }
}

void PeerLink::on_pair(const Frame& frame) {
  const std::optional<wire::PairStatement> statement = frame.pair_statement();
  if (!statement || options_.on_statement == nullptr) return fail_unexpected();
  options_.on_statement(*statement);
}

void PeerLink::fail_unexpected() {
  fail_link(Error{Code::kInternal, description_ + ": the peer sent an unexpected frame"}, true);
}

bool PeerLink::on_tick(Clock::time_point now) {
  if (grace_end_ <= now) {
    fail_link(Error{Code::kRemote, gone_text_}, false);
    grace_end_ = Clock::time_point::max();
  }
  if (ended_at_ && now - *ended_at_ >= kDeafAfter) deaf_ = true;
  if (probe_at_ <= now) ask_for_probe(now);
  note_progress(now);
  check_answer(now);
  keep_alive(now);
  ticked_at_ = now;
  return ask_at_ <= now && ask(now);
}

void PeerLink::keep_alive(Clock::time_point now) {
  if (now < keep_alive_at_) return;
  const bool first = keep_alive_at_ == Clock::time_point{};
  keep_alive_at_ = now + kPayloadInterval;
  if (!first && !ended_at_) send_frame(wire::FrameKind::kKeepAlive, "");
}

void PeerLink::ask_for_probe(Clock::time_point now) {
  probe_at_ = now + kProbeInterval;
  set(kProbe, true);
}

void PeerLink::note_progress(Clock::time_point now) {
  const uint64_t completed = completed_.load(std::memory_order_relaxed);
  const uint64_t posted = posted_.load(std::memory_order_relaxed);
  if (posted == completed || failed()) {
    stalled_since_.reset();
  } else if (completed != seen_completed_ || !stalled_since_) {
    stalled_since_ = now;
  }
  seen_completed_ = completed;
}

void PeerLink::query_peer(Clock::time_point now) {
  if (ended_at_ || peer_gone()) return;
  queried_ = true;
  answer_due_ = now + kAnswerTime;
  send_frame(wire::FrameKind::kStateQuery, "");
}

// An answer that comes after that is still logged.
void PeerLink::check_answer(Clock::time_point now) {
  if (answer_due_ == Clock::time_point::max()) return;
  // Where this process was stopped, the answer may be in the socket, unread.
  if (now - ticked_at_ >= kLateTick) answer_due_ = now + kAnswerTime;
  if (now < answer_due_) return;
  answer_due_ = Clock::time_point::max();
  if (!queried_ || ended_at_ || peer_gone() || failed()) return;
  GDR_WARN(
      "watchdog: %s: %s has not answered for %lld s: it is stopped, its host hangs, or the "
      "handshake's network is interrupted. Fix: look at its state (ps, dmesg) on that host",
      description_.c_str(), to_string(peer()).c_str(), static_cast<long long>(kAnswerTime.count()));
}

std::string PeerLink::state_text() const {
  const std::string owner = options_.owner_text ? options_.owner_text() : "";
  return std::string(role_) + " posted " + std::to_string(posted_.load(std::memory_order_relaxed)) +
         " completed " + std::to_string(completed_.load(std::memory_order_relaxed)) +
         (owner.empty() ? "" : " for " + owner) + (deaf_ ? " without handshake socket" : "") +
         (options_.pairs_text ? options_.pairs_text() : "") +
         (failed() ? " failed: " + failure().text : "");
}

}  // namespace gdr::transport
