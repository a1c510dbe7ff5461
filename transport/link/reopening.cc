#include "transport/link/reopening.h"

#include <algorithm>
#include <cerrno>
#include <utility>

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

// Each has a descriptor, and a process often has 1024. Others wait in the socket's queue. A peer
// sends its frame within about 20 ms of its connect.
constexpr size_t kMostPending = 128;
constexpr milliseconds kRequestTime{1000};
constexpr milliseconds kPendingPoll{10};
// Where nothing can be accepted, as the process has no descriptor left.
constexpr std::chrono::seconds kPauseOfAccepts{1};

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

uint16_t ReopenPort::port() const {
  wire::Handle handle{};
  write_address(socket_.address, &handle);
  return handle.tcp_port;
}

std::vector<ReopenPort::Request> ReopenPort::step(Clock::time_point now) {
  std::vector<Request> requests;
  deadline_ = Clock::time_point::max();
  accept_some(now);
  std::erase_if(peers_, [&](Peer& peer) {
    return !read(peer, &requests) || now - peer.since >= kRequestTime;
  });
  if (!peers_.empty()) deadline_ = std::min(deadline_, now + kPendingPoll);
  return requests;
}

void ReopenPort::accept_some(Clock::time_point now) {
  while (peers_.size() < kMostPending) {
    Result<std::optional<UniqueFd>> socket = accept_tcp(fd());
    if (!socket) deadline_ = now + kPauseOfAccepts;
    if (!socket || !socket->has_value()) return;
    peers_.push_back(Peer{FrameChannel(std::move(**socket)), now});
  }
  deadline_ = now + kPendingPoll;  // others wait
}

// Returns whether the peer stays.
bool ReopenPort::read(Peer& peer, std::vector<Request>* requests) {
  Result<std::optional<Frame>> frame = peer.channel.receive();
  if (!frame) return false;
  if (!frame->has_value()) return true;
  const auto proof = (*frame)->proof();
  if (proof && (*frame)->kind == wire::FrameKind::kReopen) {
    requests->push_back(Request{std::move(peer.channel), *proof});
  }
  return false;
}

}  // namespace gdr::transport
