// An IP address range in CIDR notation, such as 10.0.0.0/8 or fd00::/8, and the GIDs in it
// (NCCL_IB_ADDR_RANGE).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace gdr::transport {

using Gid = std::array<uint8_t, 16>;  // in network byte order, as ibv_gid::raw

// A range of addresses: all that have the same first prefix_bits bits.
struct Cidr {
  int family = 0;  // AF_INET or AF_INET6
  std::array<uint8_t, 16>
      address{};  // IPv4 in the first 4 bytes; bits after the prefix are ignored
  int prefix_bits = 0;

  // Parses `address/bits`: an IPv4 address with 0 to 32 bits or an IPv6 address with 0 to 128. The
  // prefix is required. kInvalidUsage for any other text.
  static Result<Cidr> parse(std::string_view text);
  // Whether the GID is in the range. An IPv4 range contains only IPv4-mapped GIDs, an IPv6 range,
  // even
  // ::/0, only others.
  bool contains(const Gid& gid) const;
  std::string to_string() const;
};

// Whether the GID is IPv4-mapped, ::ffff:a.b.c.d: the form of a RoCE GID of an IPv4 address.
bool is_ipv4_mapped(const Gid& gid);

}  // namespace gdr::transport
