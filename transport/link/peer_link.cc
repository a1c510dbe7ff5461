#include "transport/link/peer_link.h"

#include <utility>

#include "base/log.h"
#include "transport/wire/tcp.h"

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
// Time between an orderly end and the failure of the link: completions of what the peer sent before
// may still be unread in our CQ, and NCCL flushes that to GPU memory.
constexpr std::chrono::seconds kGrace{2};
// Until a link without a peer fails: its other connections find that out as well, for one warning.
constexpr std::chrono::milliseconds kTogether{100};

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
  channel_.queue_text(wire::FrameKind::kBye, "");
  (void)channel_.flush();
  (void)shutdown(channel_.fd(), SHUT_WR);
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
    case wire::FrameKind::kPair: {
      const std::optional<wire::PairStatement> statement = frame.pair_statement();
      if (!statement || options_.on_statement == nullptr) return fail_unexpected();
      options_.on_statement(*statement);
      break;
    }
    case wire::FrameKind::kKeepAlive:
      break;
    default:
      fail_unexpected();
      break;
  }
}

void PeerLink::fail_unexpected() {
  fail_link(Error{Code::kInternal, description_ + ": the peer sent an unexpected frame"}, true);
}

void PeerLink::on_socket_end(const Error& error, Clock::time_point now) {
  if (error.code != Code::kRemote) {  // bytes that are not a frame
    fail_link(Error{error.code, description_ + ": " + error.text}, true);
    return;
  }
  end_text_ = error.text;
  if (peer_closed_) {
    on_peer_gone(
        "the peer closed the connection while it was in use; the cause is in its log, mostly "
        "another rank that failed first. Fix: look for the first NET/GDR warning of the job",
        now + kGrace);
    return;
  }
  ended_at_ = probe_at_ = now;
  reopening_.begin(now);
}

// A peer that closes a connection after its failure has stated the cause.
void PeerLink::on_peer_gone(const std::string& reason, Clock::time_point end) {
  reopening_.stop();
  if (failed()) return;
  gone_text_ = description_ + ": " + reason;
  peer_gone_.store(true, std::memory_order_relaxed);
  grace_end_ = end;
}

// Returns whether the link has another socket.
bool PeerLink::reopen(Clock::time_point now) {
  switch (reopening_.step(now)) {
    case Reopening::Answer::kNone:
      break;
    case Reopening::Answer::kOpen:
      return use(reopening_.take_channel());
    case Reopening::Answer::kRefused:
      on_peer_gone(end_text_ + ", and a connection to the peer's process (" +
                       to_string(options_.reopen.to) +
                       ") is refused. Likely cause: that process ended. Fix: look for the reason "
                       "in its log, or for the OOM killer in its host's dmesg",
                   now + kTogether);
      break;
    case Reopening::Answer::kUnknown:
      // A receiver that has completed nothing may not have taken the connection from its listener.
      if (options_.reopen.opens && completed() == 0) break;
      on_peer_gone(end_text_ +
                       ", and the peer does not have the connection any more. Likely cause: it has "
                       "failed there. Fix: look for the first NET/GDR warning of the job",
                   now + kTogether);
      break;
  }
  return false;
}

// What the end that does not open the socket asks is answered, and shows that its socket has ended.
bool PeerLink::on_reopened(FrameChannel channel) {
  const wire::EndProof& own = options_.reopen.own;
  channel.queue(wire::FrameKind::kKnown, &own, sizeof(own));
  if (!options_.reopen.opens) return use(std::move(channel));
  (void)channel.flush();
  (void)shutdown(fd_, SHUT_RDWR);
  return false;
}

// What was on its way over the former socket may be lost: the failure is sent again, statements
// are repeated until the peer has seen them, and no answer is expected to a question. A peer that
// was taken for gone was not, unless it has sent kBye.
bool PeerLink::use(FrameChannel channel) {
  {
    std::lock_guard lock(mutex_);
    if (!channel_.replace_socket(std::move(channel))) return false;
    if (notifies_peer_) channel_.queue_text(wire::FrameKind::kFailed, failure_.text);
    (void)channel_.flush();
  }
  GDR_INFO(log::kNet, "%s: the handshake socket is open again, after: %s", description_.c_str(),
           ended_at_ ? end_text_.c_str() : "the peer has lost it");
  reopening_.stop();
  ended_at_.reset();
  deaf_ = queried_ = false;
  probe_at_ = Clock::time_point::max();
  if (!peer_closed_) {
    peer_gone_ = false;
    grace_end_ = Clock::time_point::max();
  }
  return true;
}

void PeerLink::fail_gone() { fail_link(Error{Code::kRemote, gone_text_}, false); }

bool PeerLink::on_tick(Clock::time_point now) {
  if (grace_end_ <= now) {
    grace_end_ = Clock::time_point::max();
    options_.reopen.opens ? fail_gone() : set(kLeft, true);
  }
  if (ended_at_ && now - *ended_at_ >= kDeafAfter) deaf_ = true;
  if (probe_at_ <= now) {
    probe_at_ = now + kProbeInterval;
    set(kProbe, true);
  }
  note_progress(now, /*counts=*/!failed());
  keep_alive(now);
  return reopening_.deadline() <= now && reopen(now);
}

void PeerLink::keep_alive(Clock::time_point now) {
  if (now < keep_alive_at_) return;
  const bool first = keep_alive_at_ == Clock::time_point{};
  keep_alive_at_ = now + kPayloadInterval;
  if (!first && !ended_at_) send_frame(wire::FrameKind::kKeepAlive, "");
}

void PeerLink::query_peer() {
  if (ended_at_ || peer_gone()) return;
  queried_ = true;
  send_frame(wire::FrameKind::kStateQuery, "");
}

std::string PeerLink::state_text() const {
  return std::string(role_) + " posted " + std::to_string(posted()) + " completed " +
         std::to_string(completed()) + (options_.owner.empty() ? "" : " for " + options_.owner) +
         (deaf_ ? " without handshake socket" : "") +
         (options_.pairs_text ? options_.pairs_text() : "") +
         (failed() ? " failed: " + failure().text : "");
}

}  // namespace gdr::transport
