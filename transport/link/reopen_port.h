// The one socket of a process at which its peers open kept sockets again.
#pragma once

#include <list>
#include <vector>

#include "base/clock.h"
#include "transport/wire/frame_channel.h"
#include "transport/wire/tcp.h"

namespace gdr::transport {

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
  std::list<Peer> peers_;  // in the order in which they connected
  Clock::time_point deadline_ = Clock::time_point::max();
};

}  // namespace gdr::transport
