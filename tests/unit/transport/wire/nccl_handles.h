// Handles as NCCL's own transports fill them, and read them: ncclNetSocketHandle of
// src/transport/net_socket.cc and ncclIbHandle of src/transport/net_ib/connect.cc, NCCL 2.18 to
// 2.30. Earlier releases have no magic number.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstring>
#include <string>

#include "transport/wire/wire.h"

namespace gdr::transport {

inline constexpr uint64_t kNcclSocketMagic = 0x564ab9f2fc4b9d6c;  // NCCL_SOCKET_MAGIC

union NcclSocketAddress {
  sockaddr_in ipv4;
  sockaddr_in6 ipv6;
};

struct NcclSocketHandle {
  NcclSocketAddress address;
  uint64_t magic;
  int sockets;  // connections beside the one for control
  int threads;
  // What connect keeps there between its calls.
  int state;  // 0: the first call
  uint8_t iteration;
  void* socket;
  void* comm;
};
static_assert(offsetof(NcclSocketHandle, sockets) == 40);
static_assert(offsetof(NcclSocketHandle, state) == 48);

struct NcclIbHandle {
  NcclSocketAddress address;
  uint64_t magic;
  // What connect keeps there between its calls.
  int state;  // 0: the first call
  int offset;
  void* buffer;
  void* comm;
  wire::Gid gids[2];  // 2.29 and later
};
static_assert(offsetof(NcclIbHandle, state) == 40);
static_assert(sizeof(NcclSocketHandle) <= sizeof(wire::Handle));
static_assert(sizeof(NcclIbHandle) <= sizeof(wire::Handle));

template <class Theirs>
Theirs nccl_handle(const std::string& address, uint16_t port) {
  Theirs handle;
  std::memset(&handle, 0, sizeof(handle));
  const bool ipv6 = address.find(':') != std::string::npos;
  handle.address.ipv6.sin6_family = ipv6 ? AF_INET6 : AF_INET;
  handle.address.ipv6.sin6_port = htons(port);
  void* const bytes = ipv6 ? static_cast<void*>(&handle.address.ipv6.sin6_addr)
                           : static_cast<void*>(&handle.address.ipv4.sin_addr);
  EXPECT_EQ(inet_pton(ipv6 ? AF_INET6 : AF_INET, address.c_str(), bytes), 1);
  handle.magic = kNcclSocketMagic;
  return handle;
}
inline NcclSocketHandle nccl_socket_handle(const std::string& address, uint16_t port) {
  auto handle = nccl_handle<NcclSocketHandle>(address, port);
  handle.sockets = 4;
  handle.threads = 2;
  return handle;
}
inline NcclIbHandle nccl_ib_handle(const std::string& address, uint16_t port) {
  return nccl_handle<NcclIbHandle>(address, port);
}

// The bytes as a handle of the other side, in a buffer that NCCL has cleared.
template <class Theirs>
wire::Handle as_ours(const Theirs& theirs) {
  wire::Handle handle{};
  std::memcpy(static_cast<void*>(&handle), &theirs, sizeof(theirs));
  return handle;
}
template <class Theirs>
Theirs as_theirs(const wire::Handle& ours) {
  Theirs handle;
  std::memcpy(static_cast<void*>(&handle), &ours, sizeof(handle));
  return handle;
}

}  // namespace gdr::transport
