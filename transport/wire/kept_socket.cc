#include "transport/wire/kept_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>

namespace gdr::transport {
namespace {

// An idle socket is acknowledged every kKeepAliveIdle seconds, so that this is a probe that nobody
// answered.
constexpr std::chrono::seconds kUnanswered{kKeepAliveIdle + kKeepAliveInterval};

}  // namespace

SocketEnd classify_socket_end(int sys_errno, std::optional<std::chrono::milliseconds> silent_for) {
  switch (sys_errno) {
    case 0:
      return SocketEnd::kProcess;
    case ECONNRESET:
    case EPIPE:
      return silent_for && *silent_for >= kUnanswered ? SocketEnd::kPath : SocketEnd::kProcess;
    default:  // ETIMEDOUT, what ICMP reports, and an interface that went away
      return SocketEnd::kPath;
  }
}

std::optional<std::chrono::milliseconds> silence_of(int fd) {
  tcp_info info{};
  socklen_t length = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return std::nullopt;
  return std::chrono::milliseconds(info.tcpi_last_ack_recv);
}

void tune_kept_socket(int fd) {
  constexpr unsigned kMilliseconds = 1000 * (kKeepAliveIdle + kKeepAliveCount * kKeepAliveInterval);
  // A failure is ignored: the socket is then found dead later.
  (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kMilliseconds, sizeof(kMilliseconds));
}

}  // namespace gdr::transport
