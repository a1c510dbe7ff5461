#include "transport/link/reopening.h"

#include <algorithm>
#include <cerrno>

namespace gdr::transport {
namespace {

using std::chrono::milliseconds;

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

}  // namespace

void Reopening::begin(Clock::time_point now) {
  pause_ = kFirstAskPause;
  if (target_.to.ss_family == AF_UNSPEC) return;
  ask_at_ = target_.opens ? now : now + kPeersTurn;
}

void Reopening::stop() {
  opening_ = FrameChannel();
  refused_since_.reset();
  ask_at_ = Clock::time_point::max();
}

Reopening::Answer Reopening::step(Clock::time_point now) {
  Result<std::optional<Frame>> frame = exchange(now);
  if (frame && !frame->has_value() && now - opening_since_ < kAttempt) {
    ask_at_ = now + std::max<Clock::duration>(kAnswerPoll, (now - opening_since_) / 4);
    return Answer::kNone;
  }
  const bool known = frame && frame->has_value() && is_peers(**frame);
  if (known && target_.opens) return Answer::kOpen;
  end_attempt(frame ? 0 : frame.error().sys_errno, now);
  if (known) {
    ask_at_ = now + kLastAskPause;
  } else if (refused_since_ && now - *refused_since_ >= kRefusedFor) {
    return Answer::kRefused;
  } else if (frame && frame->has_value() && (*frame)->kind == wire::FrameKind::kUnknown) {
    return Answer::kUnknown;
  }
  return Answer::kNone;
}

// What another process answers at the peer's port counts for nothing.
bool Reopening::is_peers(const Frame& answer) const {
  const std::optional<wire::EndProof> proof = answer.proof();
  return answer.kind == wire::FrameKind::kKnown && proof && wire::is_same(*proof, target_.peers);
}

Result<std::optional<Frame>> Reopening::exchange(Clock::time_point now) {
  if (!opening_.valid()) {
    opening_since_ = now;
    opening_.queue(wire::FrameKind::kReopen, &target_.own, sizeof(target_.own));
  }
  Result<bool> done = opening_.connect(target_.to, target_.from);
  if (done && *done) done = opening_.flush();
  if (!done) return forward_error(done);
  if (!*done) return std::nullopt;
  return opening_.receive();
}

void Reopening::end_attempt(int err, Clock::time_point now) {
  opening_ = FrameChannel();
  const bool refused = target_.direct && err == ECONNREFUSED;
  if (!refused) refused_since_.reset();
  if (refused && !refused_since_) refused_since_ = now;
  ask_at_ = now + pause_;
  pause_ = std::min(2 * pause_, kLastAskPause);
}

}  // namespace gdr::transport
