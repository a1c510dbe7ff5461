#include "transport/data/peer_link.h"

#include <utility>

#include "base/log.h"

namespace gdr::transport {
namespace {

// Time between the end of the peer's socket and the failure of the link: completions of what the
// peer sent before it closed or died may still be unread in our CQ.
constexpr std::chrono::milliseconds kGrace{500};

}  // namespace

PeerLink::PeerLink(FrameChannel channel, std::string description, const char* role,
                   std::shared_ptr<RegistrationAgreement> agreement)
    : description_(std::move(description)),
      role_(role),
      agreement_(std::move(agreement)),
      fd_(channel.fd()),
      channel_(std::move(channel)) {}

void PeerLink::fail_link(Error error, bool notify_peer) {
  std::string text = error.text;
  {
    std::lock_guard lock(mutex_);
    if (failed_.load(std::memory_order_relaxed)) return;
    failure_ = std::move(error);
    failed_.store(true, std::memory_order_release);
  }
  if (notify_peer) send_frame(wire::FrameKind::kFailed, text);
}

Error PeerLink::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void PeerLink::send_bye() { send_frame(wire::FrameKind::kBye, ""); }

void PeerLink::send_memory(uint32_t flags) {
  const wire::Memory body{flags, 0};
  std::lock_guard lock(mutex_);
  channel_.queue(wire::FrameKind::kMemory, &body, sizeof(body));
  (void)channel_.flush();
}

void PeerLink::send_frame(wire::FrameKind kind, const std::string& text) {
  std::lock_guard lock(mutex_);
  channel_.queue_text(kind, text);
  // Frames are small compared with the socket's buffer. They inform the peer sooner and better than
  // its own time-outs would, but nothing depends on them: one that does not fit is dropped.
  (void)channel_.flush();
}

bool PeerLink::on_readable() {
  for (;;) {
    Result<std::optional<Frame>> frame = channel_.receive();
    if (!frame) {
      on_peer_gone(frame.error().text);
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
      GDR_WARN("watchdog: %s: the peer reports: %s", description_.c_str(), frame.text().c_str());
      break;
    case wire::FrameKind::kMemory:
      on_memory(frame);
      break;
    default:
      fail_unexpected();
      break;
  }
}

void PeerLink::on_memory(const Frame& frame) {
  const std::optional<wire::Memory> memory = frame.memory();
  if (!memory) return fail_unexpected();
  if (agreement_ != nullptr) agreement_->on_frame(memory->flags);
}

void PeerLink::fail_unexpected() {
  fail_link(Error{Code::kInternal, description_ + ": the peer sent an unexpected frame"}, true);
}

void PeerLink::on_peer_gone(std::string why) {
  gone_why_ = peer_closed_ ? "the peer closed the connection" : std::move(why);
  grace_end_ = Clock::now() + kGrace;
}

void PeerLink::on_tick(std::chrono::seconds watchdog) {
  if (grace_end_ <= Clock::now()) {
    grace_end_ = Clock::time_point::max();
    std::string text = description_ + ": " + gone_why_;
    if (!peer_closed_) text += "; the peer process died or its host is unreachable";
    fail_link(Error{Code::kRemote, std::move(text)}, false);
  }
  if (watchdog.count() > 0) check_progress(watchdog);
  copies_.on_tick();
}

void PeerLink::check_progress(std::chrono::seconds watchdog) {
  uint64_t completed = completed_.load(std::memory_order_relaxed);
  uint64_t posted = posted_.load(std::memory_order_relaxed);
  Clock::time_point now = Clock::now();
  if (completed != seen_completed_ || posted == completed || failed()) {
    seen_completed_ = completed;
    seen_at_ = now;
    reported_stall_ = false;
    return;
  }
  if (reported_stall_ || now - seen_at_ < watchdog) return;
  reported_stall_ = true;
  GDR_WARN("watchdog: %s: no progress for %lld s; %s", description_.c_str(),
           static_cast<long long>(watchdog.count()), state_text().c_str());
  send_frame(wire::FrameKind::kStateQuery, "");
}

std::string PeerLink::state_text() const {
  return std::string(role_) + " posted " + std::to_string(posted_.load(std::memory_order_relaxed)) +
         " completed " + std::to_string(completed_.load(std::memory_order_relaxed)) +
         (failed() ? " failed: " + failure().text : "") + copies_.likely_cause();
}

}  // namespace gdr::transport
