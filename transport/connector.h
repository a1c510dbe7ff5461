// The sender's side of the handshake, one non-blocking step at a time.
#pragma once

#include <memory>
#include <string>

#include "transport/data/send_comm.h"
#include "transport/handshakes.h"
#include "transport/wire/wire.h"

namespace gdr::transport {

// Connects to a listener, sends kHello, takes kReply and sends kReady (docs/wire-protocol.md). NCCL
// calls connect again and again from a thread that has other connections to make, so that nothing
// here may wait. Until kReady is sent, a connection that breaks is made anew and carries the hello
// of the same sender: the listener drops pending peers where many connect, and answers as it has
// before.
class Connector {
 public:
  // Creates the comm's end of a connection on these rails to the address that the handle names.
  static Result<std::unique_ptr<Connector>> create(HandshakeContext context, const EndRails& rails,
                                                   const wire::Handle& handle);

  // Does what can be done without waiting. Returns the connected comm, or null: call again. An
  // error is final.
  Result<std::unique_ptr<SendComm>> step();

 private:
  enum class State {
    kConnecting,            // the TCP connection is being made, perhaps anew after a pause
    kAwaitingReply,         // the hello is queued, and sent as the socket takes it
    kConnectingQueuePairs,  // the peer's address is not resolved yet
    kSendingReady,
    kEnded,  // kReady is sent, or one of the ends has refused
  };

  Connector(HandshakeContext context, const sockaddr_storage& to, const wire::Secret& secret,
            std::unique_ptr<SendComm> comm);
  // Runs the current state's function below. Each returns true when its state is done and state_
  // has moved on, false when it has to wait.
  Result<bool> advance();
  Result<bool> make_connection();
  Result<bool> await_reply();
  Result<bool> connect_queue_pairs();
  Result<bool> send_ready();
  tl::unexpected<Error> refuse(Error error);
  Status check_open() const;
  // Plans to connect again after that error, or returns it where that is of no use.
  Result<bool> plan_retry(Error error);
  void note_progress();
  std::string text_of_stall(long long seconds) const;

  const HandshakeContext context_;
  const sockaddr_storage to_;
  const wire::Secret secret_;  // of the handle
  State state_ = State::kConnecting;
  State furthest_ = State::kConnecting;  // that was reached so far
  int retries_ = 0;
  Clock::time_point retry_at_{};
  std::string last_error_;    // that led to a retry
  std::string likely_cause_;  // of that, and the fix
  FrameChannel channel_;
  std::unique_ptr<SendComm> comm_;
  bool direct_ = false;  // ReopenTarget::direct
  Handshake handshake_;  // destroyed first
};

}  // namespace gdr::transport
