#include "transport/connector.h"

#include <cerrno>
#include <utility>

namespace gdr::transport {
namespace {

// Less than a second: a listener whose queue is full has had time to empty it.
constexpr int kRetriesBeforeWarning = 3;

// The likely cause of an attempt that failed, and the fix. connected: after the TCP connection was
// made.
std::string cause_of(int err, bool connected) {
  if (connected) {
    return "another process has the receiver's port, as the receiver's process has ended or was "
           "restarted; or very many senders connect to it at once. Fix: start all ranks of the job "
           "together";
  }
  const std::string cause =
      err == ECONNREFUSED
          ? "the receiver no longer listens: its process has ended, or has given up. Fix: look for "
            "the reason in its log; if it still runs, "
          : "a firewall drops the connection, or the receiver's interface cannot be reached from "
            "here. Fix: ";
  return cause + kAllowTcp;
}

}  // namespace

Connector::Connector(HandshakeContext context, const sockaddr_storage& to,
                     const wire::Secret& secret, std::unique_ptr<SendComm> comm)
    : context_(std::move(context)),
      to_(to),
      secret_(secret),
      likely_cause_(cause_of(0, /*connected=*/false)),
      comm_(std::move(comm)),
      handshake_(*context_.handshakes, {[this] {
                                          channel_ = FrameChannel();
                                          return std::shared_ptr<void>(std::move(comm_));
                                        },
                                        [this](const HcaContext* hca) {
                                          return comm_ != nullptr && comm_->give_up_standby(hca);
                                        }}) {}

Result<std::unique_ptr<Connector>> Connector::create(HandshakeContext context,
                                                     const EndRails& rails,
                                                     const wire::Handle& handle) {
  Result<sockaddr_storage> to = read_address(handle);
  if (!to) return forward_error(to);
  set_local_scope(&*to, context.options->interface_name, context.options->bind_address);
  Result<std::unique_ptr<SendComm>> comm =
      SendComm::create(rails, context.connection, context.watcher,
                       ListenerRails{handle.active_rails, handle.standby_rails});
  if (!comm) return forward_error(comm);
  return std::unique_ptr<Connector>(
      new Connector(std::move(context), *to, handle.secret, std::move(*comm)));
}

Result<std::unique_ptr<SendComm>> Connector::step() {
  auto call = handshake_.begin_call("connect");
  if (!call) return forward_error(call);
  while (state_ != State::kEnded) {
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
    case State::kEnded:
      break;
  }
  return fail(Code::kInternal, "the handshake has ended");
}

// When a large job starts, thousands of senders connect at once and a listener's queue may
// overflow. A connection that breaks later may have been dropped by a listener that many connect
// to, by the network, or by a proxy between the ends. But where nobody listens any more after a
// hello was sent, nobody will: another process would listen on another port, with another secret.
Result<bool> Connector::plan_retry(Error error) {
  if (error.code != Code::kRemote || state_ == State::kEnded) {
    return tl::unexpected<Error>(std::move(error));
  }
  likely_cause_ = cause_of(error.sys_errno, state_ > State::kConnecting);
  const bool gone = error.sys_errno == ECONNREFUSED && furthest_ > State::kConnecting;
  if (gone || retries_ >= context_.options->connect_retries) {
    if (retries_ > 0) error.text += "; gave up after " + std::to_string(retries_) + " retries";
    error.text += "; likely cause: " + likely_cause_;
    return tl::unexpected<Error>(std::move(error));
  }
  ++retries_;
  if (retries_ == kRetriesBeforeWarning) {
    const std::string to = to_string(to_);
    const std::string host = to.substr(0, to.rfind(':'));  // each connection has another port
    context_.watcher->failures().warn_once(
        "handshake with " + host + likely_cause_,
        "handshake with " + to + ": " + error.text +
            "; connecting again. Likely cause: " + likely_cause_);
  }
  last_error_ = std::move(error.text);
  channel_ = FrameChannel();
  retry_at_ = handshake_.now() + retries_ * context_.options->connect_retry_pause;
  state_ = State::kConnecting;
  return false;
}

Result<bool> Connector::make_connection() {
  if (handshake_.now() < retry_at_) return false;
  Result<bool> connected = channel_.connect(to_, context_.options->bind_address);
  if (!connected || !*connected) return connected;
  Result<bool> prepared = comm_->prepare();
  if (!prepared || !*prepared) return prepared;
  channel_.queue(comm_->end_point(secret_), wire::FrameKind::kHello);
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
    state_ = State::kEnded;
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
  const bool is_first = furthest_ < State::kConnectingQueuePairs;
  state_ = State::kConnectingQueuePairs;
  if (!is_first) return true;
  retries_ = 0;
  Result<bool> begun = comm_->connect(*receiver);
  if (!begun) return refuse(std::move(begun.error()));
  return true;
}

Result<bool> Connector::connect_queue_pairs() {
  if (Status open = check_open(); !open) return forward_error(open);
  Result<bool> connected = comm_->connect_step();
  if (!connected) return refuse(std::move(connected.error()));
  if (!*connected) return false;
  const uint8_t direct = direct_ ? 1 : 0;
  channel_.queue(wire::FrameKind::kReady, &direct, sizeof(direct));
  state_ = State::kSendingReady;
  return true;
}

tl::unexpected<Error> Connector::refuse(Error error) {
  state_ = State::kEnded;
  return channel_.refuse(std::move(error));
}

// The receiver waits for a short time only, and a kReady that it does not get is lost.
Status Connector::check_open() const {
  if (!channel_.has_ended()) return {};
  return fail(Code::kRemote, "the handshake socket was closed after the reply");
}

Result<bool> Connector::send_ready() {
  if (Status open = check_open(); !open) return forward_error(open);
  Result<bool> sent = channel_.flush();
  if (sent && *sent) state_ = State::kEnded;
  return sent;
}

// A retry goes back to an earlier state, which does not count as progress.
void Connector::note_progress() {
  if (state_ <= furthest_) return;
  furthest_ = state_;
  handshake_.on_progress();
}

std::string Connector::text_of_stall(long long seconds) const {
  const std::string text =
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
           "log and stack";
  }
  const std::string& name = context_.options->interface_name;
  return text + "there is no TCP connection from " +
         (name.empty() ? to_string(context_.options->bind_address) : name) +
         (last_error_.empty() ? "" : " (" + last_error_ + ")") + ". Likely cause: " + likely_cause_;
}

}  // namespace gdr::transport
