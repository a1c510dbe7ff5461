#include "transport/wire/foreign_handle.h"

#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "transport/wire/tcp.h"

namespace gdr::transport {
namespace {

std::optional<sockaddr_storage> leading_address(const wire::Handle& handle) {
  sockaddr_storage address{};
  std::memcpy(&address, &handle, sizeof(sockaddr_in6));
  const bool is_address = address.ss_family == AF_INET || address.ss_family == AF_INET6;
  // At the same place in both families.
  const in_port_t port = reinterpret_cast<const sockaddr_in*>(&address)->sin_port;
  return is_address && port != 0 ? std::optional(address) : std::nullopt;
}

bool is_empty(const wire::Handle& handle) {
  const std::span bytes(reinterpret_cast<const char*>(&handle), sizeof(handle));
  return std::ranges::all_of(bytes, [](char byte) { return byte == 0; });
}

}  // namespace

std::string foreign_handle_text(const wire::Handle& handle) {
  std::string text = "the peer's handle is not of this plugin";
  if (const std::optional<sockaddr_storage> address = leading_address(handle)) {
    text += ": it begins with the socket address " + to_string(*address) +
            ", as those of NCCL's own IB and Socket transports do";
  } else if (is_empty(handle)) {
    text += ": it is empty";
  }
  return text +
         ". The peer's rank has fallen back to another transport, or has loaded another plugin. "
         "Fix: look for the reason in that rank's log (NCCL_DEBUG=INFO), and set NCCL_NET=GDR on "
         "every rank, so that a rank which cannot use this plugin fails by itself";
}

}  // namespace gdr::transport
