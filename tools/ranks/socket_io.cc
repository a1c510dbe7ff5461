#include "tools/ranks/socket_io.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <thread>

namespace gdr::tools {
namespace {
struct FreeAddrInfo {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
constexpr auto kRetryPause = std::chrono::milliseconds(20);
constexpr int kPollMs = 100;

Result<sockaddr_in> resolve(const HostPort& address) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* raw = nullptr;
  int code = getaddrinfo(address.host.c_str(), nullptr, &hints, &raw);
  if (code != 0) {
    return fail(Code::kInvalidUsage,
                fmt::format("cannot resolve {}: {}", address.host, gai_strerror(code)));
  }
  std::unique_ptr<addrinfo, FreeAddrInfo> list(raw);
  sockaddr_in out = *reinterpret_cast<const sockaddr_in*>(list->ai_addr);
  out.sin_port = htons(address.port);
  return out;
}
}  // namespace

Result<HostPort> parse_host_port(const std::string& text) {
  size_t colon = text.rfind(':');
  HostPort out;
  if (colon != std::string::npos && colon > 0) {
    out.host = text.substr(0, colon);
    const char* end = text.data() + text.size();
    auto [stop, error] = std::from_chars(text.data() + colon + 1, end, out.port);
    if (error == std::errc() && stop == end) return out;
  }
  return fail(Code::kInvalidArgument,
              fmt::format("\"{}\" is not an address; give HOST:PORT, the port 0..65535", text));
}

Result<UniqueFd> listen_on(HostPort& address) {
  auto name = resolve(address);
  if (!name) return forward_error(name);
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  int on = 1;
  auto* place = reinterpret_cast<sockaddr*>(&*name);
  socklen_t length = sizeof(*name);
  if (!fd.valid() || setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      bind(fd.get(), place, length) != 0 || ::listen(fd.get(), SOMAXCONN) != 0 ||
      getsockname(fd.get(), place, &length) != 0) {
    return fail_errno(Code::kSystem,
                      fmt::format("cannot listen on {}:{}", address.host, address.port), errno);
  }
  address.port = ntohs(name->sin_port);
  return fd;
}

Result<UniqueFd> connect_until(const HostPort& address, Clock::time_point deadline) {
  auto name = resolve(address);
  if (!name) return forward_error(name);
  for (;;) {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (fd.valid() &&
        connect(fd.get(), reinterpret_cast<const sockaddr*>(&*name), sizeof(*name)) == 0) {
      int on = 1;
      setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      return fd;
    }
    if (Clock::now() >= deadline) {
      return fail_errno(Code::kSystem,
                        fmt::format("cannot connect to {}:{}", address.host, address.port), errno);
    }
    std::this_thread::sleep_for(kRetryPause);
  }
}

Status write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return fail_errno(Code::kRemote, "control connection: write", errno);
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return {};
}

Status read_all(int fd, char* into, size_t bytes, Clock::time_point deadline) {
  while (bytes > 0) {
    pollfd wait{fd, POLLIN, 0};
    int ready = poll(&wait, 1, kPollMs);
    if (ready == 0 && Clock::now() >= deadline) {
      return fail(Code::kRemote, "control connection: no answer in time");
    }
    if (ready <= 0) continue;
    ssize_t got = recv(fd, into, bytes, 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return fail_errno(Code::kRemote, "control connection: read", errno);
    if (got == 0) return fail(Code::kRemote, "control connection: closed by the root");
    into += got;
    bytes -= static_cast<size_t>(got);
  }
  return {};
}

}  // namespace gdr::tools
