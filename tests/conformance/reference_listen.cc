#include "tests/conformance/reference_listen.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <random>

#include "tests/conformance/defect.h"

namespace gdr::reference {
namespace {
constexpr int kLongMs = 3000;  // duration of a call with a blocking defect

sockaddr_in loopback(uint16_t port) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  name.sin_port = port;
  return name;
}

bool readable(int fd, int timeout_ms) {
  pollfd wait{fd, POLLIN, 0};
  return poll(&wait, 1, timeout_ms) > 0;
}
}  // namespace

Connecting* Connecting::start(const Handle& handle) {
  auto made = std::make_unique<Connecting>();
  made->fd_.reset(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  made->hello_.secret = handle.secret;
  sockaddr_in name = loopback(handle.port);
  int result = connect(made->fd_.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name));
  if (result != 0 && errno != EINPROGRESS) return nullptr;
  int on = 1;
  setsockopt(made->fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return made.release();
}

abi::ncclResult_t Connecting::step(SendComm** comm) {
  if (!hello_sent_) {
    ssize_t sent = send(fd_.get(), &hello_, sizeof(hello_), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN ? abi::ncclSuccess : abi::ncclRemoteError;
    hello_sent_ = true;  // an empty socket buffer has room for all 16 bytes
  }
  if (has_defect("blocking_connect")) readable(fd_.get(), kLongMs);
  char welcome = 0;
  ssize_t got = recv(fd_.get(), &welcome, 1, MSG_DONTWAIT);
  if (got < 0 && errno == EAGAIN) return abi::ncclSuccess;
  if (got <= 0) return has_defect("ignores_death") ? abi::ncclSuccess : abi::ncclRemoteError;
  *comm = new SendComm(std::move(fd_));
  return abi::ncclSuccess;
}

ListenComm* ListenComm::open(Handle* handle) {
  auto made = std::make_unique<ListenComm>();
  std::random_device entropy;
  made->secret_ = uint64_t{entropy()} << 32 | entropy();
  made->fd_.reset(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_in name = loopback(0);
  socklen_t length = sizeof(name);
  auto* address = reinterpret_cast<sockaddr*>(&name);
  if (bind(made->fd_.get(), address, length) != 0 || ::listen(made->fd_.get(), 128) != 0 ||
      getsockname(made->fd_.get(), address, &length) != 0) {
    return nullptr;
  }
  *handle = Handle{made->secret_, name.sin_port, nullptr};
  return made.release();
}

ListenComm::HelloState ListenComm::read_hello(PendingPeer& peer) const {
  auto* into = reinterpret_cast<char*>(&peer.hello) + peer.bytes;
  ssize_t got = recv(peer.fd.get(), into, sizeof(Hello) - peer.bytes, MSG_DONTWAIT);
  if (got < 0 && errno == EAGAIN) return HelloState::kIncomplete;
  if (got <= 0) return HelloState::kRejected;
  peer.bytes += static_cast<size_t>(got);
  if (peer.bytes < sizeof(Hello)) return HelloState::kIncomplete;
  bool authentic = peer.hello.magic == Hello{}.magic && peer.hello.secret == secret_;
  return authentic ? HelloState::kAccepted : HelloState::kRejected;
}

abi::ncclResult_t ListenComm::accept(RecvComm** comm) {
  if (has_defect("blocking_accept")) readable(fd_.get(), kLongMs);
  for (;;) {
    UniqueFd fd(accept4(fd_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) break;
    int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    pending_.push_back(PendingPeer{std::move(fd), {}, 0});
    pending_.back().hello = Hello{0, 0};
  }
  for (size_t i = 0; i < pending_.size();) {
    HelloState state = read_hello(pending_[i]);
    if (state == HelloState::kIncomplete) {
      ++i;
      continue;
    }
    UniqueFd fd = std::move(pending_[i].fd);
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
    if (state == HelloState::kRejected) {
      if (has_defect("fails_on_noise")) return abi::ncclRemoteError;
      continue;
    }
    send(fd.get(), "w", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    *comm = new RecvComm(std::move(fd));
    return abi::ncclSuccess;
  }
  return abi::ncclSuccess;
}

}  // namespace gdr::reference
