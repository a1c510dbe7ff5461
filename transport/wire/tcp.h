// Non-blocking TCP for the handshake.
#pragma once

#include <sys/socket.h>

#include <optional>

#include "base/result.h"
#include "base/unique_fd.h"
#include "transport/wire/wire.h"

namespace gdr::transport {

struct ListeningSocket {
  UniqueFd fd;
  sockaddr_storage address{};  // with the port that the kernel chose
};

Result<ListeningSocket> listen_tcp(const sockaddr_storage& bind_address);

// The next connection, if one waits.
Result<std::optional<UniqueFd>> accept_tcp(int listening_fd);

// Begins to connect. from: the local address to use (its port is ignored).
Result<UniqueFd> start_connect_tcp(const sockaddr_storage& to, const sockaddr_storage& from);
// True once connected. A refused or failed attempt is a kRemote error with its errno.
Result<bool> finish_connect_tcp(int fd);

void write_address(const sockaddr_storage& address, wire::Handle* handle);
Result<sockaddr_storage> read_address(const wire::Handle& handle);
std::string to_string(const sockaddr_storage& address);  // "192.0.2.1:4711"

}  // namespace gdr::transport
