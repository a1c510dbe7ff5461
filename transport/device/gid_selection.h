// The choice of a port's GID. A RoCE port has one GID for each address of its network interface and
// RoCE version; both ends of a connection must use GIDs of the same version and address family.
// The preferences are those of NCCL's net_ib (ncclIbGetGidIndex); here the choice does not depend
// on the order in which the kernel filled the table.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/finding.h"
#include "base/result.h"

namespace gdr::transport {

struct Device;

using Gid = std::array<uint8_t, 16>;  // in network byte order, as ibv_gid::raw

// A range of addresses, such as 10.0.0.0/8 or fd00::/8: the GIDs that have the same first bits.
struct Cidr {
  std::string text;
  Gid address{};        // of IPv4 as ::ffff:10.0.0.0; bits after the prefix are ignored
  int prefix_bits = 0;  // of the GID: 104 for 10.0.0.0/8

  // Parses `address/bits`: an IPv4 address with 0 to 32 bits or an IPv6 address with 0 to 128. The
  // prefix is required. kInvalidUsage for any other text.
  static Result<Cidr> parse(std::string_view text);
  // Whether the GID is in the range. An IPv4 range contains only IPv4-mapped GIDs, an IPv6 range,
  // even ::/0, only others.
  bool contains(const Gid& gid) const;
  const std::string& to_string() const { return text; }
};

// The values are those of verbs (ibv_gid_type). kIb on a RoCE port is treated as RoCE v1, since
// older verbs libraries report it for v1, too.
enum class GidType : uint8_t { kIb, kRoceV1, kRoceV2 };

// One entry of a port's GID table.
struct GidEntry {
  int index = 0;  // in the port's GID table
  Gid gid{};
  GidType type = GidType::kIb;
};

// What the user prefers; the variable that sets each field is named.
struct GidPreference {
  int forced_index = -1;                     // NCCL_IB_GID_INDEX; -1: choose by the other fields
  int roce_version = 2;                      // NCCL_IB_ROCE_VERSION_NUM
  int family = AF_INET;                      // NCCL_IB_ADDR_FAMILY: AF_INET or AF_INET6
  std::optional<Cidr> range = std::nullopt;  // NCCL_IB_ADDR_RANGE
  // NCCL_IB_ROUTABLE_FLID_GID_INDEX, for InfiniBand alone; the other fields are for RoCE alone
  int routable_index = 1;
};

// Selects the GID to use. A forced index is used as it is. Otherwise, null GIDs and GIDs outside
// the range are excluded, and among the rest these criteria decide, the first one first: the
// preferred address family, an address that is not link-local, the preferred RoCE version, the
// lowest index. These criteria are preferences, as in NCCL. kInvalidUsage if the forced index is
// empty or no GID is in the range; kSystem if the port has no GID. Both texts list the GIDs of the
// table.
Result<GidEntry> select_gid(const std::vector<GidEntry>& table, const GidPreference& preference);

// Returns the GID to use on a port at present: on RoCE that of select_gid(); on InfiniBand, where
// the LID routes within a subnet, the one at routable_index if it carries an FLID, else the one at
// index 0. Call it for every connection: entries move within the table when a link goes down and
// comes back. One system call, which does not wait for firmware. kInvalidUsage or kSystem, with the
// port's name, if no GID suits.
Result<GidEntry> resolve_gid(const Device& device, const GidPreference& preference);

// Returns the present index of a GID that a port had: the former one, if the GID is still there,
// since a VLAN interface with its parent's MAC address makes two entries of one GID and type.
// None where the port has the GID no more.
std::optional<int> find_gid(const Device& device, const GidEntry& former);

// Returns the forwarding LID (FLID) in a GID of routed InfiniBand, by which another subnet's
// routers forward packets to it: bytes 4 and 5 of the GID; 0 where it carries none. Source: NCCL's
// net_ib, connect.cc (ncclIbExtractFlid). Meaningless for GIDs of RoCE.
uint16_t flid_of(const Gid& gid);

// Whether the GID is IPv4-mapped, ::ffff:a.b.c.d: the form of a RoCE GID of an IPv4 address.
bool is_ipv4_mapped(const Gid& gid);
int family_of(const Gid& gid);  // AF_INET, for IPv4-mapped ones, or AF_INET6
// Whether two GIDs are in one subnet. Those of IPv4 addresses (::ffff:192.0.2.1) are compared by
// that many bits of the address, all others by their subnet prefix, the first 64 bits; one of each
// kind never. As NCCL's net_ib does (connect.cc, gidSameSubnet).
bool is_same_subnet(const Gid& a, const Gid& b, int ipv4_prefix_bits = 24);
// Whether the GID marks an unused entry of the table: all zeros, or fe80:: followed by zeros.
bool is_null(const Gid& gid);
// Whether the GID is in fe80::/64, so that only peers on the same subnet can reach it.
bool is_link_local(const Gid& gid);

std::string to_string(const Gid& gid);  // IPv6 notation; IPv4-mapped as ::ffff:192.0.2.1
const char* to_string(GidType type);    // "IB", "RoCE v1" or "RoCE v2"

}  // namespace gdr::transport
