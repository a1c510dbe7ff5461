// The receiver's side of the handshake. Never blocks.
#pragma once

#include <chrono>
#include <list>
#include <memory>

#include "transport/data/receive_comm.h"
#include "transport/options.h"
#include "transport/wire/tcp.h"

namespace gdr::transport {

// A listening socket and the peers that connected to it. Anyone who reaches the port can connect,
// so that a peer is pending until its hello carries the handle's secret. Pending peers are bounded
// in number and time, and dropped without an answer when they send anything else.
class Listener {
 public:
  // Draws the secret and listens on the address of the handshake's interface, on a free port.
  static Result<std::unique_ptr<Listener>> create(const Device& device,
                                                  std::shared_ptr<const TransportOptions> options,
                                                  Watcher* watcher);

  // Fills the handle that NCCL carries to the sender: address, port and secret.
  void write_handle(wire::Handle* handle) const;

  // Does what can be done without waiting. Returns the connected comm, or null: call again. An
  // error is final for the connection that it concerns; the listener can accept another.
  Result<std::unique_ptr<ReceiveComm>> accept();

 private:
  using Clock = std::chrono::steady_clock;
  // A peer that connected and has not sent its hello yet.
  struct PendingPeer {
    FrameChannel channel;
    Clock::time_point since;
  };
  enum class HelloResult { kIncomplete, kAccepted, kDropped };

  Listener(const Device& device, std::shared_ptr<const TransportOptions> options, Watcher* watcher,
           ListeningSocket socket);
  // Takes the TCP connections that wait into pending_.
  Status accept_pending();
  // Reads from the pending peers until one of them is accepted: comm_ is then not null.
  Status read_hellos();
  // Reads what a peer has sent. An error concerns the peer that knows the secret:
  // it has been refused.
  Result<HelloResult> read_hello(PendingPeer& peer);
  // Creates the comm, begins to connect its QPs and, once they are connected, sends the reply.
  Status answer(const wire::EndPoint& sender);
  Result<bool> connect_queue_pairs();
  void queue_reply();
  void refuse(const Error& error);
  Result<bool> await_ready();

  Device device_;
  std::shared_ptr<const TransportOptions> options_;
  Watcher* watcher_;
  ListeningSocket socket_;
  wire::Secret secret_;
  std::list<PendingPeer> pending_;
  FrameChannel channel_;               // to the peer that was accepted
  std::unique_ptr<ReceiveComm> comm_;  // being connected to it; else null
  bool replied_ = false;               // kReply is queued: comm_'s QPs are connected
};

}  // namespace gdr::transport
