// Reads and writes of whole buffers on blocking sockets with a deadline, and address parsing.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace gdr::tools {

using Clock = std::chrono::steady_clock;

struct HostPort {
  std::string host;
  uint16_t port = 0;
};

// Parses "HOST:PORT"; the host may be a name or an IPv4 address, the port is 0 to 65535.
Result<HostPort> parse_host_port(const std::string& text);

// Opens a listening socket. Port 0 selects a free one, which address.port is set to.
Result<UniqueFd> listen_on(HostPort& address);

// Connects, and tries again until the deadline if no process listens yet.
Result<UniqueFd> connect_until(const HostPort& address, Clock::time_point deadline);

Status write_all(int fd, std::string_view bytes);

// Reads exactly `bytes` bytes. Fails if the peer closes or the deadline passes first.
Status read_all(int fd, char* into, size_t bytes, Clock::time_point deadline);

}  // namespace gdr::tools
