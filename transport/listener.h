// The receiver's side of the handshake: a listening socket, strangers on it, and the one caller
// that knows the handle's secret. Never blocks.
#pragma once

#include <chrono>
#include <list>
#include <memory>

#include "transport/data/receive_comm.h"
#include "transport/options.h"
#include "transport/wire/tcp.h"

namespace gdr::transport {

class Listener {
 public:
  static Result<std::unique_ptr<Listener>> create(const Device& device,
                                                  std::shared_ptr<const TransportOptions> options,
                                                  Watcher* watcher);

  void write_handle(wire::Handle* handle) const;

  // Does what can be done now. Null: call again. An error is final for this connection.
  Result<std::unique_ptr<ReceiveComm>> accept();

 private:
  using Clock = std::chrono::steady_clock;
  // A connection that has not proved itself yet.
  struct PendingPeer {
    FrameChannel channel;
    Clock::time_point since;
  };

  Listener(const Device& device, std::shared_ptr<const TransportOptions> options, Watcher* watcher,
           ListeningSocket socket);
  Status accept_pending();
  // Finds the caller whose hello carries the secret, and starts the comm.
  Status read_hellos();
  // False: this caller is of no use.
  Result<bool> read_hello(PendingPeer& pending);
  Status answer(const wire::EndPoint& sender);
  Result<bool> await_ready();

  Device device_;
  std::shared_ptr<const TransportOptions> options_;
  Watcher* watcher_;
  ListeningSocket socket_;
  wire::Secret secret_;
  std::list<PendingPeer> pending_;
  FrameChannel channel_;  // of the caller that was accepted
  std::unique_ptr<ReceiveComm> comm_;
};

}  // namespace gdr::transport
