// How an end reaches the peer's process again once the kept socket has ended
// (docs/adr/0003-kept-socket.md).
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "transport/wire/frame_channel.h"
#include "transport/wire/tcp.h"

namespace gdr::transport {

// How an end asks the peer's process for the connection once the kept socket has ended.
struct ReopenTarget {
  sockaddr_storage from{};
  sockaddr_storage to{};  // of no family: this end only waits to be asked
  wire::EndProof own{}, peers{};
  bool opens = false;  // this end opened the socket, and opens it again. The other end only asks
  // Nothing between the ends replaces addresses, so that it is the peer's host which refuses a
  // connection.
  bool direct = false;
};

// One attempt after another, with growing pauses. No call waits. Not thread-safe.
class Reopening {
 public:
  enum class Answer : uint8_t {
    kNone,     // not yet, or not from the peer's process
    kOpen,     // the peer goes on with take_channel()
    kRefused,  // nobody listens where the peer's process did, for long enough
    kUnknown,  // the process does not have the connection
  };

  // The target outlives it.
  explicit Reopening(const ReopenTarget& target) : target_(target) {}

  // The socket has ended.
  void begin(Clock::time_point now);
  // There is another one, or none is wanted.
  void stop();
  // When step() is to be called; Clock::time_point::max() where no attempt is made.
  Clock::time_point deadline() const { return ask_at_; }
  // Begins an attempt, or looks at it.
  Answer step(Clock::time_point now);
  FrameChannel take_channel() { return std::move(opening_); }

 private:
  Result<std::optional<Frame>> exchange(Clock::time_point now);
  bool is_peers(const Frame& answer) const;
  void end_attempt(int err, Clock::time_point now);

  const ReopenTarget& target_;
  FrameChannel opening_;  // of an attempt
  Clock::time_point opening_since_{};
  Clock::time_point ask_at_ = Clock::time_point::max();
  std::chrono::milliseconds pause_{0};  // before the next attempt
  std::optional<Clock::time_point> refused_since_;
};

// The one socket of a process at which its peers open kept sockets again.
//
// Anyone who reaches the port can connect. A peer is pending until it has sent a request, for a
// limited time and among a limited number of others, and is dropped when it sends anything else.
class ReopenPort {
 public:
  // socket: without a descriptor where the process takes none.
  explicit ReopenPort(ListeningSocket socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.fd.get(); }
  uint16_t port() const;  // 0 without a descriptor

  struct Request {
    FrameChannel channel;
    wire::EndProof proof;
  };
  // Accepts what waits at the socket, and returns what peers ask for. Called when fd() has become
  // readable, and at deadline().
  std::vector<Request> step(Clock::time_point now);
  Clock::time_point deadline() const { return deadline_; }

 private:
  struct Peer {
    FrameChannel channel;
    Clock::time_point since;
  };

  void accept_some(Clock::time_point now);
  static bool read(Peer& peer, std::vector<Request>* requests);

  const ListeningSocket socket_;
  std::vector<Peer> peers_;
  Clock::time_point deadline_ = Clock::time_point::max();
};

}  // namespace gdr::transport
