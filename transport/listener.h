// The receiver's side of the handshake. Never blocks.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/process_fds.h"
#include "transport/data/receive_comm.h"
#include "transport/handshakes.h"
#include "transport/pending_peers.h"
#include "transport/wire/tcp.h"

namespace gdr::transport {

// A listening socket and the senders that connected to it, once their hello carried the handle's
// secret (PendingPeers).
class Listener {
 public:
  // Draws the secret and listens on the address of the handshake's interface, on a free port, for
  // connections to these rails.
  static Result<std::unique_ptr<Listener>> create(HandshakeContext context, RailChoice rails);

  // Fills the handle that NCCL carries to the sender: address, port, secret and, with
  // NCCL_IB_SUBNET_AWARE_ROUTING, the device's GID.
  void write_handle(wire::Handle* handle) const;

  // Does what can be done without waiting. Returns the connected comm, or null: call again. An
  // error is final for the connection that it concerns; the listener can accept another.
  Result<std::unique_ptr<ReceiveComm>> accept();

  // As Comm::belongs_to_this_process().
  bool belongs_to_this_process() const { return generation_ == process_fds::generation(); }

 private:
  Listener(HandshakeContext context, RailChoice rails, ListeningSocket socket);
  // Runs until a sender is connected (true), or has to be waited for.
  Result<bool> advance();
  // Takes the hellos that have arrived. One of the sender that is being connected continues its
  // handshake on the new channel.
  Status read_hellos();
  void on_hello(Hello hello);
  // Creates the comm for the next of waiting_ and begins to connect its QPs. An error concerns that
  // sender, which is refused.
  Status answer_next();
  void queue_reply();
  Result<bool> await_ready();
  void end_answer();
  const wire::EndPoint& sender() const { return comm_->connection().peer(); }
  std::string text_of_stall(long long seconds) const;

  const HandshakeContext context_;
  const RailChoice rails_;
  ListeningSocket socket_;
  const wire::Secret secret_;
  PendingPeers pending_;
  std::deque<Hello> waiting_;  // senders that are not answered yet
  // EndPoint::sequence_base of the senders that are connected: a hello of theirs that a broken
  // connection delivers late must not be answered again.
  std::set<uint64_t> connected_;

  std::unique_ptr<ReceiveComm> comm_;        // of the sender that is being connected
  FrameChannel channel_;                     // to it; not valid once it was found broken
  std::optional<Clock::time_point> broken_;  // since when that is known
  bool replied_ = false;                     // kReply is queued: comm_'s QPs are connected
  bool direct_ = false;                      // ReopenTarget::direct

  uint32_t generation_ = process_fds::generation();
  Handshake handshake_;  // destroyed first
};

}  // namespace gdr::transport
