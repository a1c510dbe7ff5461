// An address range such as 10.0.0.0/8 or fd00::/8, and the GIDs that lie in it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace gdr::transport {

using Gid = std::array<uint8_t, 16>;  // network byte order, as verbs keeps it

struct Cidr {
  int family = 0;                     // AF_INET or AF_INET6
  std::array<uint8_t, 16> address{};  // IPv4 in the first 4 bytes; bits past the prefix ignored
  int prefix_bits = 0;

  static Result<Cidr> parse(std::string_view text);
  // An IPv4 range holds IPv4-mapped GIDs only, an IPv6 range all others.
  bool contains(const Gid& gid) const;
  std::string to_string() const;
};

// ::ffff:a.b.c.d, the form that RoCE gives the GID of an IPv4 address.
bool is_ipv4_mapped(const Gid& gid);

}  // namespace gdr::transport
