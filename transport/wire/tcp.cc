#include "transport/wire/tcp.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <iterator>
#include <span>

namespace gdr::transport {
namespace {

// The kernel lowers this to net.core.somaxconn. NCCL connects many channels at once.
constexpr int kBacklog = 1024;

// What helps where a process gets no socket or port; an imperative, or "".
const char* fix_of_socket(int err) {
  switch (err) {
    case EADDRINUSE:
      return "each connection takes a TCP port of this machine; allow more of them by "
             "`sysctl net.ipv4.ip_local_port_range`";
    case EMFILE:
      return "raise the limit of open files (`ulimit -n`)";
    case ENFILE:
      return "raise the limit of open files of this machine (`sysctl fs.file-max`)";
    default:
      return "";
  }
}

// With what helps: by the errno value, else `otherwise`.
tl::unexpected<Error> fail_socket(std::string text, int err, const char* otherwise = "") {
  auto failure = fail_errno(Code::kSystem, std::move(text), err);
  std::string fix = fix_of_socket(err);
  if (fix.empty()) fix = otherwise;
  if (!fix.empty()) failure.value().text += ". Fix: " + fix;
  return failure;
}

// Seconds, and probes. A path that is lost is detected after kKeepAliveIdle + kKeepAliveCount *
// kKeepAliveInterval = 30 seconds.
constexpr int kKeepAliveIdle = 10;
constexpr int kKeepAliveInterval = 5;
constexpr int kKeepAliveCount = 4;
// The same where a frame is not acknowledged, since the kernel sends no keepalive probes then and
// tries again for about 15 minutes (tcp(7)).
constexpr int kUserTimeoutMs = 1000 * (kKeepAliveIdle + kKeepAliveCount * kKeepAliveInterval);

const sockaddr* as_sockaddr(const sockaddr_storage& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

// The port of both families is at the same place.
static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
uint16_t port_of(const sockaddr_storage& address) {
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

// What precedes the port in a text: 4 bytes, or 16.
std::span<uint8_t> ip_of(sockaddr_storage* address) {
  if (address->ss_family == AF_INET6) {
    return reinterpret_cast<sockaddr_in6*>(address)->sin6_addr.s6_addr;
  }
  auto* in = reinterpret_cast<sockaddr_in*>(address);
  return {reinterpret_cast<uint8_t*>(&in->sin_addr), sizeof(in->sin_addr)};
}

socklen_t length_of(const sockaddr_storage& address) {
  return address.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

void set_option(int fd, int level, int name, int value) {
  // A failure is ignored: each option only lowers latency or detects failures earlier.
  (void)setsockopt(fd, level, name, &value, sizeof(value));
}

void tune(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveIdle);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveInterval);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, kKeepAliveCount);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
}

// name: getsockname or getpeername.
template <class Name>
sockaddr_storage address_by(int fd, Name name) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  const bool known = name(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  const bool is_tcp = address.ss_family == AF_INET || address.ss_family == AF_INET6;
  return known && is_tcp ? address : sockaddr_storage{};
}

UniqueFd open_socket(int family) {
  return UniqueFd::of_this_process(
      [family] { return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); });
}

// accept4() makes the new descriptor and its socket before it looks whether anybody has connected,
// and a listener is asked in a loop until it has: that costs ten times as much as poll().
bool may_accept(int listening_fd) {
  pollfd entry{listening_fd, POLLIN, 0};
  // Where there is no socket, or polling it fails, accept4() says why.
  return listening_fd < 0 || poll(&entry, 1, 0) != 0;
}

}  // namespace

Result<ListeningSocket> listen_tcp(const sockaddr_storage& bind_address) {
  ListeningSocket socket{open_socket(bind_address.ss_family), bind_address};
  set_port(&socket.address, 0);
  socklen_t length = length_of(socket.address);
  int fd = socket.fd.get();
  if (fd < 0 || bind(fd, as_sockaddr(socket.address), length) != 0 || listen(fd, kBacklog) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&socket.address), &length) != 0) {
    const int err = errno;
    return fail_socket("listening on " + to_string(bind_address) + " failed", err,
                       "name another interface in NCCL_SOCKET_IFNAME");
  }
  return socket;
}

Result<std::optional<UniqueFd>> accept_tcp(int listening_fd) {
  for (;;) {
    if (!may_accept(listening_fd)) return std::nullopt;
    UniqueFd fd = UniqueFd::of_this_process([listening_fd] {
      return accept4(listening_fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    });
    if (fd.valid()) {
      tune(fd.get());
      return std::optional<UniqueFd>(std::move(fd));
    }
    // Linux passes on errors that the new connection already has (accept(2)).
    constexpr int kOfConnection[] = {EINTR,     ECONNABORTED, EPROTO,       ENETDOWN,   ENOPROTOOPT,
                                     EHOSTDOWN, ENONET,       EHOSTUNREACH, ENETUNREACH};
    if (std::ranges::find(kOfConnection, errno) != std::end(kOfConnection)) continue;
    if (errno == EAGAIN) return std::nullopt;
    return fail_socket("accepting a handshake connection failed", errno);
  }
}

Result<UniqueFd> start_connect_tcp(const sockaddr_storage& to, const sockaddr_storage& from) {
  UniqueFd fd = open_socket(to.ss_family);
  if (!fd.valid()) return fail_socket("creating a socket failed", errno);
  tune(fd.get());
  if (from.ss_family == to.ss_family) {
    sockaddr_storage local = from;
    set_port(&local, 0);
    // Makes the handshake use the chosen interface. If it fails, the routing table decides. The
    // port is left to connect(), which may share it between connections to different peers: bind()
    // would reserve one of the host's ports for this socket alone.
    set_option(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    (void)bind(fd.get(), as_sockaddr(local), length_of(local));
  }
  if (connect(fd.get(), as_sockaddr(to), length_of(to)) != 0 && errno != EINPROGRESS &&
      errno != EINTR) {
    return fail_errno(Code::kRemote, "connecting to " + to_string(to) + " failed", errno);
  }
  return fd;
}

Result<bool> finish_connect_tcp(int fd) {
  pollfd entry{fd, POLLOUT, 0};
  int n = poll(&entry, 1, 0);
  if (n < 0 && errno != EINTR) return fail_errno(Code::kSystem, "polling a socket failed", errno);
  if (n <= 0) return false;
  int err = 0;
  socklen_t length = sizeof(err);
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &length) != 0) err = errno;
  if (err != 0) return fail_errno(Code::kRemote, "connecting to the peer failed", err);
  return true;
}

void set_local_scope(sockaddr_storage* address, const std::string& interface_name,
                     const sockaddr_storage& from) {
  auto* in6 = reinterpret_cast<sockaddr_in6*>(address);
  if (address->ss_family != AF_INET6 || !IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr)) return;
  uint32_t scope = interface_name.empty() ? 0 : if_nametoindex(interface_name.c_str());
  if (scope == 0 && from.ss_family == AF_INET6) {
    scope = reinterpret_cast<const sockaddr_in6*>(&from)->sin6_scope_id;
  }
  in6->sin6_scope_id = scope;
}

void write_address(sockaddr_storage address, wire::Handle* handle) {
  handle->tcp_port = port_of(address);
  std::ranges::copy(ip_of(&address), handle->address.begin());
  if (address.ss_family != AF_INET6) return;
  handle->ipv6 = 1;
  handle->scope_id = reinterpret_cast<const sockaddr_in6*>(&address)->sin6_scope_id;
}

Result<sockaddr_storage> read_address(const wire::Handle& handle) {
  if (handle.tcp_port == 0) return fail(Code::kInvalidArgument, "the handle has no TCP port");
  sockaddr_storage address{};
  address.ss_family = handle.ipv6 != 0 ? AF_INET6 : AF_INET;
  set_port(&address, handle.tcp_port);
  const std::span<uint8_t> ip = ip_of(&address);
  std::copy_n(handle.address.begin(), ip.size(), ip.begin());
  if (handle.ipv6 != 0) {
    reinterpret_cast<sockaddr_in6*>(&address)->sin6_scope_id = handle.scope_id;
  }
  return address;
}

std::string to_string(sockaddr_storage address) {
  char text[INET6_ADDRSTRLEN] = "?";
  inet_ntop(address.ss_family, ip_of(&address).data(), text, sizeof(text));
  const std::string port = ":" + std::to_string(port_of(address));
  return address.ss_family == AF_INET6 ? "[" + std::string(text) + "]" + port : text + port;
}

sockaddr_storage peer_address(int fd) { return address_by(fd, getpeername); }

sockaddr_storage own_address(int fd) { return address_by(fd, getsockname); }

void set_port(sockaddr_storage* address, uint16_t port) {
  reinterpret_cast<sockaddr_in*>(address)->sin_port = htons(port);
}

uint64_t fingerprint_of(const sockaddr_storage& address) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (char c : to_string(address)) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace gdr::transport
