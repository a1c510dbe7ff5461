// Whole-buffer reads and writes on blocking sockets with a deadline, and address parsing.
#pragma once

#include <netinet/in.h>

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

// "host:port"; the host may be a name or an IPv4 address.
Result<HostPort> parse_host_port(const std::string& text);

Result<sockaddr_in> resolve(const HostPort& address);

// Listens; port 0 takes a free one. Close-on-exec.
Result<UniqueFd> listen_on(const HostPort& address);

// Connects, trying again until the deadline while nobody listens there yet.
Result<UniqueFd> connect_until(const HostPort& address, Clock::time_point deadline);

Status write_all(int fd, std::string_view bytes);

// Fails when the peer closes or the deadline passes first.
Status read_all(int fd, char* into, size_t bytes, Clock::time_point deadline);

}  // namespace gdr::tools
