// The peers that have connected to a listener and have not sent their hello yet. Anyone who reaches
// the port can connect, and a port scan connects often.
#pragma once

#include <array>
#include <list>
#include <optional>
#include <vector>

#include "transport/handshakes.h"
#include "transport/wire/frame_channel.h"

namespace gdr::transport {

// A hello that carries the handle's secret, and the channel that it came by.
struct Hello {
  FrameChannel channel;
  wire::EndPoint sender;
};

// Reads hellos. A peer is dropped as soon as what it has sent cannot become a hello with the
// secret, and when its time is over. Beyond a number of pending peers the oldest that has sent
// nothing valid is dropped, but never before it was read from: a sender whose hello has arrived is
// not crowded out.
class PendingPeers {
 public:
  PendingPeers(const wire::Secret& secret, const HandshakeRegistry& handshakes);

  // Accepts the connections that wait at the listening socket, at most a full queue of them, and
  // returns the hellos that are complete. An error concerns the socket.
  Result<std::vector<Hello>> advance(int listening_fd);

  // Drops all.
  void clear() { peers_.clear(); }
  bool empty() const { return peers_.empty(); }

 private:
  struct Peer {
    FrameChannel channel;
    Clock::time_point since;
    bool verified = false;  // has sent the secret
  };

  Status accept_all(int listening_fd, std::vector<Hello>* hellos);
  Status on_accept_failed(Error error, std::vector<Hello>* hellos);
  // Reads from a peer. Returns whether to keep it; a complete hello is added to hellos.
  bool read(Peer& peer, std::vector<Hello>* hellos) const;
  bool may_be_hello(const uint8_t* bytes, size_t count) const;
  void evict(size_t limit, std::vector<Hello>* hellos);

  // A hello begins with these bytes: the header and the secret.
  std::array<uint8_t, sizeof(wire::FrameHeader) + sizeof(wire::Secret)> expected_;
  const HandshakeRegistry& handshakes_;
  std::list<Peer> peers_;                           // in the order in which they connected
  std::optional<Clock::time_point> failing_since_;  // accepting fails
};

}  // namespace gdr::transport
