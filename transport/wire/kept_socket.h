// The handshake's socket after the handshake. It stays open and idle, so that each end learns when
// the other is gone (docs/adr/0003-kept-socket.md).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace gdr::transport {

// Seconds, and probes. A path that is lost is detected after kKeepAliveIdle + kKeepAliveCount *
// kKeepAliveInterval = 30 seconds.
inline constexpr int kKeepAliveIdle = 10;
inline constexpr int kKeepAliveInterval = 5;
inline constexpr int kKeepAliveCount = 4;

// What the end of the socket says.
enum class SocketEnd : uint8_t {
  kProcess,  // the peer's process closed it, or is gone
  kPath,     // the network between the hosts stopped working; the peer may be well
};

// sys_errno: of the read that failed; 0 where the stream ended. silent_for: how long ago the peer's
// host acknowledged anything, if known.
//
// The end of the stream, or a reset, comes from the kernel of the peer's host when the process
// ends. A reset after a keepalive probe that nobody answered comes from a host that does not know
// the socket. Either its process ended while the path was down, or a firewall between lost
// its state in the outage and rejects what it does not know (conntrack, NAT). Only RDMA can
// distinguish these.
SocketEnd classify_socket_end(int sys_errno, std::optional<std::chrono::milliseconds> silent_for);

// How long ago the peer's host acknowledged anything on the socket; nothing where the socket is not
// of TCP.
std::optional<std::chrono::milliseconds> silence_of(int fd);

// Lets the socket fail after the same time as by keepalive where a frame is not acknowledged, since
// the kernel sends no keepalive probes then and tries again for about 15 minutes (tcp(7),
// TCP_USER_TIMEOUT).
void tune_kept_socket(int fd);

}  // namespace gdr::transport
