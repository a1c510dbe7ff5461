// The sender's side of the handshake, one non-blocking step at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "transport/data/send_comm.h"
#include "transport/handshakes.h"
#include "transport/options.h"
#include "transport/wire/wire.h"

namespace gdr::transport {

// Connects to a listener, sends kHello, takes kReply and sends kReady (docs/wire-protocol.md). NCCL
// calls connect again and again from a thread that has other connections to make, so that nothing
// here may wait. Until kReady is sent, a connection that breaks is made anew and carries the same
// hello: the listener drops pending peers where many connect, and answers as it has before.
class Connector {
 public:
  // Creates the comm's end of the connection on these rails and begins to connect to the address
  // that the handle names.
  static Result<std::unique_ptr<Connector>> create(const EndRails& rails,
                                                   const wire::Handle& handle,
                                                   HandshakeOptions options, Watcher* watcher,
                                                   HandshakeRegistry& handshakes);

  // Does what can be done without waiting. Returns the connected comm, or null: call again. An
  // error is final.
  Result<std::unique_ptr<SendComm>> step();

 private:
  enum class State {
    kConnecting,            // the TCP connection is being made, perhaps anew after a pause
    kAwaitingReply,         // the hello is queued, and sent as the socket takes it
    kConnectingQueuePairs,  // the peer's address is not resolved yet
    kSendingReady,
  };

  Connector(std::shared_ptr<const TransportOptions> options, Watcher* watcher,
            HandshakeRegistry& handshakes);
  // What follows a step of connecting the QPs.
  Result<bool> on_connect_step(Result<bool> connected);
  // Runs the current state's function below. Each returns true when its state is done and state_
  // has moved on, false when it has to wait.
  Result<bool> advance();
  Result<bool> make_connection();
  Result<bool> await_reply();
  Result<bool> connect_queue_pairs();
  Result<bool> send_ready();
  bool is_receiver_gone();
  Status check_open() const;
  // Plans to connect again after that error, or returns it where that is of no use.
  Result<bool> plan_retry(Error error);
  bool is_worth_retrying(const Error& error) const;
  void note_progress();
  std::string text_of_stall(long long seconds) const;

  State state_ = State::kConnecting;
  State furthest_ = State::kConnecting;  // that was reached so far
  std::shared_ptr<const TransportOptions> options_;
  Watcher* watcher_;
  sockaddr_storage to_{};
  wire::Secret secret_{};  // of the handle
  int retries_ = 0;
  Clock::time_point retry_at_{};
  std::string last_error_;    // that led to a retry
  std::string likely_cause_;  // of that, and the fix
  FrameChannel channel_;
  FrameChannel probe_;  // of is_receiver_gone()
  std::unique_ptr<SendComm> comm_;
  std::optional<wire::EndPoint> hello_;  // the receiver knows this sender by every byte of it
  bool replied_ = false;                 // the QPs are being connected, or are
  bool refused_ = false;                 // by the receiver, or here
  bool direct_ = false;                  // ReopenTarget::direct
  bool done_ = false;
  Handshake handshake_;  // destroyed first
};

}  // namespace gdr::transport
