// Non-blocking TCP sockets for the handshake. IPv4 and IPv6; all sockets are close-on-exec, are
// closed in forked children, and have TCP_NODELAY and keep-alive set.
#pragma once

#include <sys/socket.h>

#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "transport/wire/wire.h"

namespace gdr::transport {

struct ListeningSocket {
  UniqueFd fd;
  sockaddr_storage address{};  // including the port that the kernel chose
};

// Listens on that address, on a port that the kernel chooses; the address's own port is ignored.
Result<ListeningSocket> listen_tcp(const sockaddr_storage& bind_address);

// Accepts the next pending connection; nothing if there is none. Connections that broke while they
// were pending are skipped. kSystem with its errno if none can be accepted, such as EMFILE.
Result<std::optional<UniqueFd>> accept_tcp(int listening_fd);

// Starts to connect to `to` from the local address `from`, whose port is ignored, or from any if
// `from` has another family. kRemote if it fails at once.
Result<UniqueFd> start_connect_tcp(const sockaddr_storage& to, const sockaddr_storage& from);
// Returns whether the connection is established. A failed attempt is a kRemote error with its
// errno.
Result<bool> finish_connect_tcp(int fd);

// Gives an IPv6 link-local address the scope in which this host can connect to it: the number of
// its own interface of that name, or else the scope of `from`. A number that comes from another
// host means nothing here. Other addresses stay as they are.
void set_local_scope(sockaddr_storage* address, const std::string& interface_name,
                     const sockaddr_storage& from);

// Writes a socket address into the handle, and reads it from there. kInvalidArgument if the handle
// has no port.
void write_address(sockaddr_storage address, wire::Handle* handle);
Result<sockaddr_storage> read_address(const wire::Handle& handle);
std::string to_string(sockaddr_storage address);  // "192.0.2.1:4711", "[fe80::1]:4711"
// The address of the other end of a connected socket; of no family where it is not one of TCP.
sockaddr_storage peer_address(int fd);
sockaddr_storage own_address(int fd);
void set_port(sockaddr_storage* address, uint16_t port);
// The same at both ends for the same address and port.
uint64_t fingerprint_of(const sockaddr_storage& address);

}  // namespace gdr::transport
