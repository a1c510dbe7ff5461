#include "transport/link/reopen_port.h"

#include <algorithm>
#include <utility>

namespace gdr::transport {
namespace {

// Each has a descriptor, and a process often has 1024. A peer sends its frame within about 20 ms of
// its connect, so that one which has been silent for longer makes room for those that wait.
constexpr size_t kMostPending = 128;
constexpr std::chrono::milliseconds kTurn{100};
constexpr int kAcceptsPerStep = 32;
constexpr std::chrono::seconds kRequestTime{5};
constexpr std::chrono::milliseconds kPendingPoll{10};
// Where nothing can be accepted, as the process has no descriptor left.
constexpr std::chrono::seconds kPauseOfAccepts{1};

}  // namespace

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
  for (int i = 0; i < kAcceptsPerStep; ++i) {
    if (peers_.size() >= kMostPending && now - peers_.front().since < kTurn) return;
    Result<std::optional<UniqueFd>> socket = accept_tcp(fd());
    if (!socket) deadline_ = now + kPauseOfAccepts;
    if (!socket || !socket->has_value()) return;
    if (peers_.size() >= kMostPending) peers_.pop_front();
    peers_.push_back(Peer{FrameChannel(std::move(**socket)), now});
  }
  deadline_ = now;  // more may wait
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
