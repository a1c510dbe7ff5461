// What a PeerLink does when its socket has ended (docs/adr/0003-kept-socket.md). No call waits.
#include <cerrno>

#include "base/log.h"
#include "transport/link/peer_link.h"
#include "transport/wire/tcp.h"

namespace gdr::transport {
namespace {

using std::chrono::milliseconds;

// Time between an orderly end and the failure of the link: completions of what the peer sent before
// may still be unread in our CQ.
constexpr milliseconds kGrace{500};
// How long the end that does not open the socket waits for the other one to do so.
constexpr milliseconds kPeersTurn{500};
// How soon an attempt is looked at again, and later in proportion to what it has taken already.
constexpr milliseconds kAnswerPoll{20};
// One attempt: a firewall that drops packets answers nothing.
constexpr milliseconds kAttempt{5000};
constexpr milliseconds kFirstAskPause{100};
constexpr milliseconds kLastAskPause{10000};
// A process that has ended refuses for good, one that is just ending may still accept.
constexpr milliseconds kRefusedFor{500};
// Until a link without a peer fails: its other connections find that out as well, for one warning.
constexpr milliseconds kTogether{100};

}  // namespace

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
  pause_ = kFirstAskPause;
  if (options_.reopen.to.ss_family == AF_UNSPEC) return;
  ask_at_ = options_.reopen.opens ? now : now + kPeersTurn;
}

// A peer that closes a connection after its failure has stated the cause.
void PeerLink::on_peer_gone(const std::string& reason, Clock::time_point end) {
  if (failed()) return;
  gone_text_ = description_ + ": " + reason;
  peer_gone_.store(true, std::memory_order_relaxed);
  grace_end_ = end;
  ask_at_ = Clock::time_point::max();
}

// Returns whether the link has another socket.
bool PeerLink::ask(Clock::time_point now) {
  const ReopenTarget& target = options_.reopen;
  Result<std::optional<Frame>> frame = exchange(now);
  if (frame && !frame->has_value() && now - opening_since_ < kAttempt) {
    ask_at_ = now + std::max<Clock::duration>(kAnswerPoll, (now - opening_since_) / 4);
    return false;
  }
  const bool known = frame && frame->has_value() && is_peers(**frame);
  if (known && target.opens) return use(std::move(opening_));
  end_attempt(frame ? 0 : frame.error().sys_errno, now);
  if (known) {
    ask_at_ = now + kLastAskPause;
  } else if (refused_since_ && now - *refused_since_ >= kRefusedFor) {
    on_peer_gone(end_text_ + ", and a connection to the peer's process (" + to_string(target.to) +
                     ") is refused. Likely cause: that process ended. Fix: look for the reason in "
                     "its log, or for the OOM killer in its host's dmesg",
                 now + kTogether);
  } else if (frame && frame->has_value() && (*frame)->kind == wire::FrameKind::kUnknown &&
             (!target.opens || completed() > 0)) {
    // A receiver that has completed nothing may not have taken the connection from its listener.
    on_peer_gone(end_text_ +
                     ", and the peer does not have the connection any more. Likely cause: it has "
                     "failed there. Fix: look for the first NET/GDR warning of the job",
                 now + kTogether);
  }
  return false;
}

// What another process answers at the peer's port counts for nothing.
bool PeerLink::is_peers(const Frame& answer) const {
  const std::optional<wire::EndProof> proof = answer.proof();
  return answer.kind == wire::FrameKind::kKnown && proof &&
         wire::is_same(*proof, options_.reopen.peers);
}

Result<std::optional<Frame>> PeerLink::exchange(Clock::time_point now) {
  const ReopenTarget& target = options_.reopen;
  if (!opening_.valid()) {
    opening_since_ = now;
    opening_.queue(wire::FrameKind::kReopen, &target.own, sizeof(target.own));
  }
  Result<bool> done = opening_.connect(target.to, target.from);
  if (done && *done) done = opening_.flush();
  if (!done) return forward_error(done);
  if (!*done) return std::nullopt;
  return opening_.receive();
}

void PeerLink::end_attempt(int err, Clock::time_point now) {
  opening_ = FrameChannel();
  const bool refused = options_.reopen.direct && err == ECONNREFUSED;
  if (!refused) refused_since_.reset();
  if (refused && !refused_since_) refused_since_ = now;
  ask_at_ = now + pause_;
  pause_ = std::min(2 * pause_, kLastAskPause);
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

// What was on its way over the former socket may be lost: the failure and the goodbye are sent
// again, statements are repeated until the peer has seen them, and no answer is expected to a
// question. A peer that was taken for gone was not, unless it has sent kBye.
bool PeerLink::use(FrameChannel channel) {
  {
    std::lock_guard lock(mutex_);
    if (!channel_.replace_socket(std::move(channel))) return false;
    if (notifies_peer_) channel_.queue_text(wire::FrameKind::kFailed, failure_.text);
    if (says_bye_) channel_.queue_text(wire::FrameKind::kBye, "");
    (void)(says_bye_ ? channel_.flush_and_end() : channel_.flush());
  }
  GDR_INFO(log::kNet, "%s: the handshake socket is open again, after: %s", description_.c_str(),
           ended_at_ ? end_text_.c_str() : "the peer has lost it");
  opening_ = FrameChannel();
  ended_at_.reset();
  refused_since_.reset();
  deaf_ = queried_ = false;
  ask_at_ = probe_at_ = Clock::time_point::max();
  if (!peer_closed_) {
    peer_gone_ = false;
    grace_end_ = Clock::time_point::max();
  }
  return true;
}

}  // namespace gdr::transport
