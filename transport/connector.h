// The sender's side of the handshake, one non-blocking step at a time.
#pragma once

#include <chrono>
#include <memory>

#include "transport/data/send_comm.h"
#include "transport/options.h"
#include "transport/wire/tcp.h"
#include "transport/wire/wire.h"

namespace gdr::transport {

// Connects to a listener, sends kHello, takes kReply and sends kReady (docs/wire-protocol.md). NCCL
// calls connect again and again from a thread that has other connections to make, so that nothing
// here may wait.
class Connector {
 public:
  // Creates the comm's end of the connection on `device` and begins to connect to the address that
  // the handle names.
  static Result<std::unique_ptr<Connector>> create(const Device& device, const wire::Handle& handle,
                                                   std::shared_ptr<const TransportOptions> options,
                                                   Watcher* watcher);

  // Does what can be done without waiting. Returns the connected comm, or null: call again. An
  // error is final.
  Result<std::unique_ptr<SendComm>> step();

 private:
  using Clock = std::chrono::steady_clock;
  enum class State {
    kConnecting,      // the TCP connection is being made
    kWaitingToRetry,  // it failed for a reason that may be temporary
    kSendingHello,
    kAwaitingReply,
    kConnectingQueuePairs,  // the peer's address is not resolved yet
    kSendingReady,
  };

  Connector() = default;
  // What follows a step of connecting the QPs.
  Result<bool> on_connect_step(Result<bool> connected);
  // Runs the current state's function below. Each returns true when its state is done and state_
  // has moved on, false when it has to wait.
  Result<bool> advance();
  Result<bool> finish_connect();
  Result<bool> retry_connect();
  Result<bool> send_hello();
  Result<bool> await_reply();
  Result<bool> connect_queue_pairs();
  Result<bool> send_ready();
  Status begin_connect();

  State state_ = State::kConnecting;
  sockaddr_storage to_{};
  sockaddr_storage from_{};
  wire::Secret secret_{};  // of the handle
  int attempts_ = 0;
  Clock::time_point retry_at_{};
  FrameChannel channel_;
  std::unique_ptr<SendComm> comm_;
  bool done_ = false;
};

}  // namespace gdr::transport
