#include "transport/connector.h"

#include <cerrno>

namespace gdr::transport {
namespace {

// When a large job starts, thousands of senders connect at once and a listener's backlog may
// overflow. The number of attempts and the pause are the defaults of NCCL_SOCKET_RETRY_CNT and
// NCCL_SOCKET_RETRY_SLEEP_MSEC (NCCL src/misc/socket.cc).
constexpr int kConnectAttempts = 34;
constexpr std::chrono::milliseconds kRetryPause{100};

bool worth_retrying(int err) {
  return err == ECONNREFUSED || err == ETIMEDOUT || err == EHOSTUNREACH || err == ECONNRESET;
}

}  // namespace

Result<std::unique_ptr<Connector>> Connector::create(
    const Device& device, const wire::Handle& handle,
    std::shared_ptr<const TransportOptions> options, Watcher* watcher) {
  std::unique_ptr<Connector> connector(new Connector());
  Result<sockaddr_storage> to = read_address(handle);
  if (!to) return forward_error(to);
  connector->to_ = *to;
  connector->from_ = options->bind_address;
  connector->secret_ = handle.secret;
  std::shared_ptr<const ConnectionOptions> connection(options, &options->connection);
  Result<std::unique_ptr<SendComm>> comm = SendComm::create(device, std::move(connection), watcher);
  if (!comm) return forward_error(comm);
  connector->comm_ = std::move(*comm);
  if (Status status = connector->begin_connect(); !status) return forward_error(status);
  return connector;
}

Status Connector::begin_connect() {
  ++attempts_;
  Result<UniqueFd> fd = start_connect_tcp(to_, from_);
  if (!fd) return forward_error(fd);
  channel_ = FrameChannel(std::move(*fd));
  state_ = State::kConnecting;
  return {};
}

Result<std::unique_ptr<SendComm>> Connector::step() {
  while (!done_) {
    Result<bool> moved = advance();
    if (!moved) {
      moved.error().text += " (handshake with " + to_string(to_) + ")";
      return forward_error(moved);
    }
    if (!*moved) return nullptr;
  }
  comm_->connection().keep_link(std::move(channel_), "sender");
  return std::move(comm_);
}

Result<bool> Connector::advance() {
  switch (state_) {
    case State::kConnecting:
      return finish_connect();
    case State::kWaitingToRetry:
      return retry_connect();
    case State::kSendingHello:
      return send_hello();
    case State::kAwaitingReply:
      return await_reply();
    case State::kConnectingQueuePairs:
      return connect_queue_pairs();
    case State::kSendingReady:
      return send_ready();
  }
  return fail(Code::kInternal, "unknown handshake state");
}

Result<bool> Connector::finish_connect() {
  Result<bool> connected = finish_connect_tcp(channel_.fd());
  if (connected && !*connected) return false;
  if (connected) {
    Result<bool> prepared = comm_->prepare();
    if (!prepared || !*prepared) return prepared;
    channel_.queue(comm_->end_point(secret_), wire::FrameKind::kHello);
    state_ = State::kSendingHello;
    return true;
  }
  if (!worth_retrying(connected.error().sys_errno) || attempts_ >= kConnectAttempts) {
    return connected;
  }
  retry_at_ = Clock::now() + kRetryPause;
  state_ = State::kWaitingToRetry;
  return false;
}

Result<bool> Connector::retry_connect() {
  if (Clock::now() < retry_at_) return false;
  if (Status status = begin_connect(); !status) return forward_error(status);
  return true;
}

Result<bool> Connector::send_hello() {
  Result<bool> sent = channel_.flush();
  if (sent && *sent) state_ = State::kAwaitingReply;
  return sent;
}

Result<bool> Connector::await_reply() {
  Result<std::optional<Frame>> frame = channel_.receive();
  if (!frame) return forward_error(frame);
  if (!frame->has_value()) return false;
  if ((*frame)->kind == wire::FrameKind::kRefuse) {
    return fail(Code::kInvalidUsage, "the receiver refuses the connection: " + (*frame)->text());
  }
  if ((*frame)->kind != wire::FrameKind::kReply) {
    return fail(Code::kInternal, "the receiver sent an unexpected frame");
  }
  Result<wire::EndPoint> receiver = (*frame)->end_point();
  if (!receiver) return forward_error(receiver);
  if (receiver->secret != secret_) {
    return fail(Code::kInternal, "the receiver does not know the handle's secret");
  }
  return on_connect_step(comm_->connect(*receiver));
}

Result<bool> Connector::connect_queue_pairs() { return on_connect_step(comm_->connect_step()); }

Result<bool> Connector::on_connect_step(Result<bool> connected) {
  if (!connected) {
    channel_.queue_text(wire::FrameKind::kRefuse, connected.error().text);
    (void)channel_.flush();
    return connected;
  }
  state_ = State::kConnectingQueuePairs;
  if (!*connected) return false;
  channel_.queue(wire::FrameKind::kReady, nullptr, 0);
  state_ = State::kSendingReady;
  return true;
}

Result<bool> Connector::send_ready() {
  Result<bool> sent = channel_.flush();
  done_ = sent && *sent;
  return sent;
}

}  // namespace gdr::transport
