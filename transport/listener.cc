#include "transport/listener.h"

#include <sys/random.h>

#include <cerrno>

#include "base/log.h"

namespace gdr::transport {
namespace {

// A port scan or a health check must not crowd out the sender: beyond this many pending peers the
// oldest is dropped, and one that has sent no hello in time is dropped too.
constexpr size_t kMaxPending = 64;
constexpr std::chrono::seconds kHelloTimeout{20};

Result<wire::Secret> make_secret() {
  wire::Secret secret;
  if (getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size())) {
    return fail_errno(Code::kSystem, "drawing a random secret failed", errno);
  }
  return secret;
}

}  // namespace

Listener::Listener(const Device& device, std::shared_ptr<const TransportOptions> options,
                   Watcher* watcher, ListeningSocket socket)
    : device_(device),
      options_(std::move(options)),
      watcher_(watcher),
      socket_(std::move(socket)) {}

Result<std::unique_ptr<Listener>> Listener::create(const Device& device,
                                                   std::shared_ptr<const TransportOptions> options,
                                                   Watcher* watcher) {
  Result<wire::Secret> secret = make_secret();
  if (!secret) return forward_error(secret);
  Result<ListeningSocket> socket = listen_tcp(options->bind_address);
  if (!socket) return forward_error(socket);
  std::unique_ptr<Listener> listener(
      new Listener(device, std::move(options), watcher, std::move(*socket)));
  listener->secret_ = *secret;
  return listener;
}

void Listener::write_handle(wire::Handle* handle) const {
  *handle = wire::Handle{};
  handle->magic = wire::kMagic;
  handle->version = wire::kWireVersion;
  handle->secret = secret_;
  write_address(socket_.address, handle);
}

Result<std::unique_ptr<ReceiveComm>> Listener::accept() {
  if (comm_ == nullptr) {
    if (Status status = accept_pending(); !status) return forward_error(status);
    if (Status status = read_hellos(); !status) return forward_error(status);
    if (comm_ == nullptr) return nullptr;
  }
  Result<bool> ready = await_ready();
  if (!ready) {
    comm_.reset();
    return forward_error(ready);
  }
  if (!*ready) return nullptr;
  comm_->connection().keep_link(std::move(channel_), "receiver");
  return std::move(comm_);
}

Status Listener::accept_pending() {
  for (;;) {
    Result<std::optional<UniqueFd>> fd = accept_tcp(socket_.fd.get());
    if (!fd) return forward_error(fd);
    if (!fd->has_value()) return {};
    if (pending_.size() == kMaxPending) pending_.pop_front();
    pending_.push_back(PendingPeer{FrameChannel(std::move(**fd)), Clock::now()});
  }
}

Status Listener::read_hellos() {
  for (auto peer = pending_.begin(); peer != pending_.end() && comm_ == nullptr;) {
    Result<HelloResult> hello = read_hello(*peer);
    if (!hello) {
      pending_.erase(peer);
      return forward_error(hello);
    }
    const bool in_time = Clock::now() - peer->since < kHelloTimeout;
    if (*hello == HelloResult::kIncomplete && in_time) {
      ++peer;
    } else {
      peer = pending_.erase(peer);
    }
  }
  return {};
}

Result<Listener::HelloResult> Listener::read_hello(PendingPeer& peer) {
  Result<std::optional<Frame>> frame = peer.channel.receive();
  if (frame && !frame->has_value()) return HelloResult::kIncomplete;
  if (!frame || (*frame)->kind != wire::FrameKind::kHello) {
    GDR_TRACE(log::kNet, "dropped a pending peer on the handshake port: it sent no hello");
    return HelloResult::kDropped;
  }
  Result<wire::EndPoint> sender = (*frame)->end_point();
  if (!sender || sender->secret != secret_) {
    GDR_TRACE(log::kNet,
              "dropped a pending peer on the handshake port: it does not know the handle's secret");
    return HelloResult::kDropped;
  }
  channel_ = std::move(peer.channel);
  Status status = answer(*sender);
  if (!status) {
    channel_.queue_text(wire::FrameKind::kRefuse, status.error().text);
    (void)channel_.flush();
    return forward_error(status);
  }
  return HelloResult::kAccepted;
}

Status Listener::answer(const wire::EndPoint& sender) {
  std::shared_ptr<const ConnectionOptions> connection(options_, &options_->connection);
  Result<std::unique_ptr<ReceiveComm>> comm =
      ReceiveComm::create(device_, std::move(connection), watcher_, sender.qps);
  if (!comm) return forward_error(comm);
  if (Status status = (*comm)->connect(sender); !status) return status;
  channel_.queue((*comm)->end_point(secret_), wire::FrameKind::kReply);
  comm_ = std::move(*comm);
  return {};
}

// Waits for kReady: clear-to-send may only be written once the sender's QPs are ready to receive.
Result<bool> Listener::await_ready() {
  std::string who = "handshake with " + std::string(comm_->connection().peer().host) + ": ";
  Result<bool> sent = channel_.flush();
  if (sent && !*sent) return false;
  Result<std::optional<Frame>> frame = sent ? channel_.receive() : forward_error(sent);
  if (!frame) {
    frame.error().text = who + frame.error().text;
    return forward_error(frame);
  }
  if (!frame->has_value()) return false;
  if ((*frame)->kind == wire::FrameKind::kReady) return true;
  if ((*frame)->kind == wire::FrameKind::kRefuse) {
    return fail(Code::kInvalidUsage, who + "the sender gives up: " + (*frame)->text());
  }
  return fail(Code::kInternal, who + "the sender sent an unexpected frame");
}

}  // namespace gdr::transport
