// The sender's side of the handshake, one non-blocking step at a time.
#pragma once

#include <chrono>
#include <memory>

#include "transport/data/send_comm.h"
#include "transport/options.h"
#include "transport/wire/tcp.h"
#include "transport/wire/wire.h"

namespace gdr::transport {

class Connector {
 public:
  static Result<std::unique_ptr<Connector>> create(const Device& device, const wire::Handle& handle,
                                                   std::shared_ptr<const TransportOptions> options,
                                                   Watcher* watcher);

  // Does what can be done now. Null: call again. An error is final.
  Result<std::unique_ptr<SendComm>> step();

 private:
  using Clock = std::chrono::steady_clock;
  enum class State { kConnecting, kWaitingToRetry, kSendingHello, kAwaitingReply, kSendingReady };

  Connector() = default;
  // Each returns true when the state is done and state_ has moved on.
  Result<bool> finish_connect();
  Result<bool> retry_connect();
  Result<bool> send_hello();
  Result<bool> await_reply();
  Result<bool> send_ready();
  Result<bool> advance();
  Status begin_connect();

  State state_ = State::kConnecting;
  sockaddr_storage to_{};
  sockaddr_storage from_{};
  wire::Secret secret_{};
  int attempts_ = 0;
  Clock::time_point retry_at_{};
  FrameChannel channel_;
  std::unique_ptr<SendComm> comm_;
  bool done_ = false;
};

}  // namespace gdr::transport
