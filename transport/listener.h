// The receiver's side of the handshake: a listening socket, strangers on it, and the one caller
// that knows the handle's secret. Never blocks.
#pragma once

#include <chrono>
#include <list>
#include <memory>

#include "transport/receive_comm.h"
#include "transport/tcp.h"

namespace gdr {

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
  struct Caller {
    FrameChannel channel;
    Clock::time_point since;
  };

  Listener(const Device& device, std::shared_ptr<const TransportOptions> options, Watcher* watcher,
           ListeningSocket socket);
  Status admit_callers();
  // Finds the caller whose hello carries the secret, and starts the comm.
  Status hear_callers();
  // False: this caller is of no use.
  Result<bool> hear(Caller& caller);
  Status answer(const wire::EndPoint& sender);
  Result<bool> await_ready();

  Device device_;
  std::shared_ptr<const TransportOptions> options_;
  Watcher* watcher_;
  ListeningSocket socket_;
  wire::Secret secret_;
  std::list<Caller> callers_;
  FrameChannel channel_;  // of the caller that was accepted
  std::unique_ptr<ReceiveComm> comm_;
};

}  // namespace gdr
