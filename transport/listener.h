// The receiver's side of the handshake. Never blocks.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/process_fds.h"
#include "transport/data/receive_comm.h"
#include "transport/handshakes.h"
#include "transport/link/reopening.h"
#include "transport/options.h"
#include "transport/pending_peers.h"
#include "transport/wire/tcp.h"

namespace gdr::transport {

// A listening socket and the peers that connected to it. Anyone who reaches the port can connect,
// so that a peer is pending until its hello carries the handle's secret. Pending peers are bounded
// in number and time, and dropped without an answer when they send anything else.
class Listener {
 public:
  // Draws the secret and listens on the address of the handshake's interface, on a free port, for
  // connections to these rails. The devices, the watcher and the handshakes outlive the listener.
  static Result<std::unique_ptr<Listener>> create(const std::vector<Device>& devices,
                                                  RailChoice rails, HandshakeOptions options,
                                                  Watcher* watcher, HandshakeRegistry& handshakes);

  // Fills the handle that NCCL carries to the sender: address, port, secret and, with
  // NCCL_IB_SUBNET_AWARE_ROUTING, the device's GID.
  void write_handle(wire::Handle* handle) const;

  // Does what can be done without waiting. Returns the connected comm, or null: call again. An
  // error is final for the connection that it concerns; the listener can accept another.
  Result<std::unique_ptr<ReceiveComm>> accept();

  // As Comm::belongs_to_this_process().
  bool belongs_to_this_process() const { return generation_ == process_fds::generation(); }

 private:
  Listener(const std::vector<Device>& devices, ListeningSocket socket, const wire::Secret& secret,
           HandshakeRegistry& handshakes);
  // Runs until a sender is connected (true), or has to be waited for.
  Result<bool> advance();
  // Takes the hellos that have arrived. One of the sender that is being connected continues its
  // handshake on the new channel.
  Status read_hellos();
  void on_hello(Hello hello);
  // Begins to connect the next of waiting_. An error concerns that sender, which is refused.
  Status answer_next();
  // Creates the comm, begins to connect its QPs and, once they are connected, sends the reply.
  Status answer(const wire::EndPoint& sender);
  Result<bool> connect_queue_pairs();
  void queue_reply();
  void refuse(const Error& error);
  Result<bool> await_ready();
  Result<bool> on_channel_broken(Error error);
  void note_broken();
  bool is_return_overdue();
  void use(FrameChannel channel);  // to sender_
  bool is_sender_gone();
  void end_answer();
  std::string text_of_stall(long long seconds) const;

  const std::vector<Device>& devices_;
  RailChoice rails_;
  std::shared_ptr<const TransportOptions> options_;
  std::shared_ptr<const ConnectionOptions> connection_;  // of the communicator
  Watcher* watcher_ = nullptr;
  ListeningSocket socket_;
  wire::Secret secret_;
  PendingPeers pending_;
  std::deque<Hello> waiting_;  // senders that are not answered yet
  // EndPoint::sequence_base of the senders that are connected: a hello of theirs that a broken
  // connection delivers late must not be answered again.
  std::set<uint64_t> connected_;

  // The sender that is being connected, where comm_ is not null.
  wire::EndPoint sender_{};
  FrameChannel channel_;                     // to it; not valid once it was found broken
  std::optional<Clock::time_point> broken_;  // since when that is known
  ReopenTarget process_;                     // its process, where asking_ asks for that
  Reopening asking_{process_};
  bool gone_ = false;  // nobody listens there any more
  std::unique_ptr<ReceiveComm> comm_;
  bool replied_ = false;  // kReply is queued: comm_'s QPs are connected
  bool direct_ = false;   // ReopenTarget::direct

  uint32_t generation_ = process_fds::generation();
  Handshake handshake_;  // destroyed first
};

}  // namespace gdr::transport
