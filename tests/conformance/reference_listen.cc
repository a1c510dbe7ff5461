#include "tests/conformance/reference_listen.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>

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
  sockaddr_in name = loopback(handle.port);
  int result = connect(made->fd_.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name));
  if (result != 0 && errno != EINPROGRESS) return nullptr;
  int on = 1;
  setsockopt(made->fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return made.release();
}

abi::ncclResult_t Connecting::step(SendComm** comm) {
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
  made->fd_.reset(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_in name = loopback(0);
  socklen_t length = sizeof(name);
  auto* address = reinterpret_cast<sockaddr*>(&name);
  if (bind(made->fd_.get(), address, length) != 0 || ::listen(made->fd_.get(), 128) != 0 ||
      getsockname(made->fd_.get(), address, &length) != 0) {
    return nullptr;
  }
  *handle = Handle{name.sin_port, nullptr};
  return made.release();
}

abi::ncclResult_t ListenComm::accept(RecvComm** comm) {
  if (has_defect("blocking_accept")) readable(fd_.get(), kLongMs);
  UniqueFd fd(accept4(fd_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd.valid()) return abi::ncclSuccess;
  int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  send(fd.get(), "w", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  *comm = new RecvComm(std::move(fd));
  return abi::ncclSuccess;
}

}  // namespace gdr::reference
