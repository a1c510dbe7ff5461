#include "transport/connector.h"

#include <cerrno>
#include <utility>

#include "base/log.h"

namespace gdr::transport {
namespace {

// Less than a second: a listener whose queue is full has had time to empty it.
constexpr int kRetriesBeforeWarning = 3;

// The likely cause of an attempt that failed, and the fix. connected: after the TCP connection was
// made.
std::string cause_of(const Error& error, bool connected) {
  if (connected) {
    return "another process has the receiver's port, as the receiver's process has ended or was "
           "restarted; or very many senders connect to it at once. Fix: start all ranks of the job "
           "together";
  }
  if (error.sys_errno == ECONNREFUSED) {
    return std::string(
               "the receiver no longer listens: its process has ended, or has given up. "
               "Fix: look for the reason in its log; if it still runs, ") +
           kAllowTcp;
  }
  return std::string(
             "a firewall drops the connection, or the receiver's interface cannot be "
             "reached from here. Fix: ") +
         kAllowTcp;
}

}  // namespace

Connector::Connector(std::shared_ptr<const TransportOptions> options, Watcher* watcher,
                     HandshakeRegistry& handshakes)
    : options_(std::move(options)),
      watcher_(watcher),
      handshake_(handshakes, {[this] {
                                channel_ = FrameChannel();
                                probe_ = FrameChannel();
                                return std::shared_ptr<void>(std::move(comm_));
                              },
                              [this] { return is_receiver_gone(); },
                              [this](const HcaContext* hca) {
                                return comm_ != nullptr && comm_->give_up_standby(hca);
                              }}) {}

Result<std::unique_ptr<Connector>> Connector::create(const EndRails& rails,
                                                     const wire::Handle& handle,
                                                     HandshakeOptions options, Watcher* watcher,
                                                     HandshakeRegistry& handshakes) {
  Result<sockaddr_storage> to = read_address(handle);
  if (!to) return forward_error(to);
  set_local_scope(&*to, options.transport->interface_name, options.transport->bind_address);
  std::unique_ptr<Connector> connector(
      new Connector(std::move(options.transport), watcher, handshakes));
  connector->to_ = *to;
  connector->secret_ = handle.secret;
  auto call = connector->handshake_.begin_call("connect");
  if (!call) return forward_error(call);
  Result<std::unique_ptr<SendComm>> comm =
      SendComm::create(rails, std::move(options.connection), watcher,
                       ListenerRails{handle.active_rails, handle.standby_rails});
  if (!comm) return forward_error(comm);
  connector->comm_ = std::move(*comm);
  Result<bool> begun = connector->channel_.connect(*to, connector->options_->bind_address);
  if (!begun) begun = connector->plan_retry(std::move(begun.error()));
  if (!begun) return forward_error(begun);
  return connector;
}

// Where the connection has ended, the next call would connect again. That is in
// vain where nobody listens any more, as in is_worth_retrying(); to find that out takes two calls.
bool Connector::is_receiver_gone() {
  const bool has_ended = !channel_.valid() || channel_.has_ended();
  if (furthest_ <= State::kConnecting || !has_ended) return false;
  const Result<bool> connected = probe_.connect(to_, options_->bind_address);
  return !connected && connected.error().sys_errno == ECONNREFUSED;
}

Result<std::unique_ptr<SendComm>> Connector::step() {
  auto call = handshake_.begin_call("connect");
  if (!call) return forward_error(call);
  while (!done_) {
    Result<bool> moved = advance();
    if (!moved) moved = plan_retry(std::move(moved.error()));
    if (!moved) {
      add_detail(&moved.error().text, " (handshake with " + to_string(to_) + ")");
      return forward_error(moved);
    }
    note_progress();
    if (!*moved) {
      handshake_.on_waiting([this](long long seconds) { return text_of_stall(seconds); });
      return nullptr;
    }
  }
  handshake_.on_complete();
  comm_->keep_link(std::move(channel_), direct_);
  return std::move(comm_);
}

Result<bool> Connector::advance() {
  switch (state_) {
    case State::kConnecting:
      return make_connection();
    case State::kAwaitingReply:
      return await_reply();
    case State::kConnectingQueuePairs:
      return connect_queue_pairs();
    case State::kSendingReady:
      return send_ready();
  }
  return fail(Code::kInternal, "unknown handshake state");
}

// When a large job starts, thousands of senders connect at once and a listener's queue may
// overflow; NCCL tries again after the same errors (src/os/linux.cc, socketConnectCheck). A
// connection that breaks later may have been dropped by a listener that many connect to, by the
// network, or by a proxy between the ends. But where nobody listens any more after a hello was
// sent, nobody will: another process would listen on another port, with another secret.
bool Connector::is_worth_retrying(const Error& error) const {
  if (refused_ || error.code != Code::kRemote) return false;
  const bool was_connected = furthest_ > State::kConnecting;
  switch (error.sys_errno) {
    case ECONNREFUSED:
      return !was_connected;
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ECONNRESET:
      return true;
    default:
      return was_connected;
  }
}

Result<bool> Connector::plan_retry(Error error) {
  const bool again = is_worth_retrying(error);
  const bool gone = error.sys_errno == ECONNREFUSED;
  if (again || gone) likely_cause_ = cause_of(error, state_ > State::kConnecting);
  if (!again || retries_ >= options_->connect_retries) {
    if (again && retries_ > 0) {
      error.text += "; gave up after " + std::to_string(retries_) + " retries";
    }
    if (again || gone) error.text += "; likely cause: " + likely_cause_;
    return tl::unexpected<Error>(std::move(error));
  }
  ++retries_;
  watcher_->process_counters().count_retries(Retry::kConnect, 1);
  if (retries_ == kRetriesBeforeWarning) {
    const std::string to = to_string(to_);
    const std::string host = to.substr(0, to.rfind(':'));  // each connection has another port
    watcher_->failures().warn_once("handshake with " + host + likely_cause_,
                                   "handshake with " + to + ": " + error.text +
                                       "; connecting again. Likely cause: " + likely_cause_);
  }
  last_error_ = std::move(error.text);
  channel_ = FrameChannel();
  retry_at_ = handshake_.now() + retries_ * options_->connect_retry_pause;
  state_ = State::kConnecting;
  return false;
}

Result<bool> Connector::make_connection() {
  if (handshake_.now() < retry_at_) return false;
  Result<bool> connected = channel_.connect(to_, options_->bind_address);
  if (!connected || !*connected) return connected;
  Result<bool> prepared = comm_->prepare();
  if (!prepared || !*prepared) return prepared;
  if (!hello_) {
    hello_ = comm_->end_point(secret_);
    hello_->seen_from = fingerprint_of_host(own_address(channel_.fd()));
  }
  channel_.queue(*hello_, wire::FrameKind::kHello);
  state_ = State::kAwaitingReply;
  return true;
}

Result<bool> Connector::await_reply() {
  Result<bool> sent = channel_.flush();
  if (!sent || !*sent) return sent;
  Result<std::optional<Frame>> frame = channel_.receive();
  if (!frame) return forward_error(frame);
  if (!frame->has_value()) return false;
  if ((*frame)->kind == wire::FrameKind::kRefuse) {
    refused_ = true;
    return fail(Code::kRemote, "the receiver refuses the connection: " + (*frame)->text());
  }
  if ((*frame)->kind != wire::FrameKind::kReply) {
    return fail(Code::kInternal, "the receiver sent an unexpected frame");
  }
  Result<wire::EndPoint> receiver = (*frame)->end_point();
  if (!receiver) return forward_error(receiver);
  if (receiver->secret != secret_) {
    return fail(Code::kInternal, "the receiver does not know the handle's secret");
  }
  direct_ = receiver->seen_from == fingerprint_of(own_address(channel_.fd()));
  if (std::exchange(replied_, true)) return on_connect_step(comm_->connect_step());
  retries_ = 0;
  return on_connect_step(comm_->connect(*receiver));
}

Result<bool> Connector::connect_queue_pairs() {
  if (Status open = check_open(); !open) return forward_error(open);
  return on_connect_step(comm_->connect_step());
}

// The receiver waits for a short time only, and a kReady that it does not get is lost.
Status Connector::check_open() const {
  if (!channel_.has_ended()) return {};
  return fail(Code::kRemote, "the handshake socket was closed after the reply");
}

Result<bool> Connector::on_connect_step(Result<bool> connected) {
  if (!connected) {
    refused_ = true;
    channel_.queue_text(wire::FrameKind::kRefuse, connected.error().text);
    (void)channel_.flush();
    return connected;
  }
  state_ = State::kConnectingQueuePairs;
  if (!*connected) return false;
  const uint8_t direct = direct_ ? 1 : 0;
  channel_.queue(wire::FrameKind::kReady, &direct, sizeof(direct));
  state_ = State::kSendingReady;
  return true;
}

Result<bool> Connector::send_ready() {
  if (Status open = check_open(); !open) return forward_error(open);
  Result<bool> sent = channel_.flush();
  done_ = sent && *sent;
  return sent;
}

// A retry goes back to an earlier state, which does not count as progress.
void Connector::note_progress() {
  if (state_ <= furthest_) return;
  furthest_ = state_;
  handshake_.on_progress();
}

std::string Connector::text_of_stall(long long seconds) const {
  std::string text =
      "connecting to " + to_string(to_) + ": no progress for " + std::to_string(seconds) + " s; ";
  if (state_ > State::kAwaitingReply) {
    return text +
           "the reply has come, the queue pairs are not connected yet. Likely cause: the peer's "
           "address is not resolved. Fix: see the lines above about the queue pairs";
  }
  if (state_ == State::kAwaitingReply) {
    return text +
           "the hello is sent, no reply has come. Likely cause: the receiver's rank has not called "
           "accept, because it failed, hangs or waits for another rank. Fix: look at that rank's "
           "log "
           "and stack";
  }
  text += "there is no TCP connection from " + (options_->interface_name.empty()
                                                    ? to_string(options_->bind_address)
                                                    : options_->interface_name);
  if (retries_ > 0) text += " after " + std::to_string(retries_) + " retries (" + last_error_ + ")";
  return text + ". Likely cause: " + (retries_ > 0 ? likely_cause_ : cause_of({}, false));
}

}  // namespace gdr::transport
