// The addresses of a port: its GID table, and the GUID of a device for which none is configured.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace softhca {

inline bool same_gid(const ibv_gid& a, const ibv_gid& b) { return memcmp(&a, &b, sizeof a) == 0; }

struct GidEntry {
  ibv_gid gid = {};
  ibv_gid_type type = IBV_GID_TYPE_IB;

  // Returns false for an entry of the table that has no GID: it reads all zero.
  bool valid() const { return !same_gid(gid, {}); }
};

// What the GID table of a port is made from.
struct PortAddresses {
  uint64_t guid;                     // of the port
  uint64_t subnet_prefix;            // 0xfe80000000000000 is the link-local one
  uint16_t flid;                     // 0: none
  const std::vector<ibv_gid>& gids;  // those that are configured
  bool ethernet;
};

// Returns the GID table of a port: the GID of its GUID and subnet; where the port has a FLID, the
// routable GID, which carries it in bits 16 to 31 of the prefix; then the configured addresses.
// Ethernet has each as RoCE v1 and v2; without configured addresses it has one IPv4-mapped address.
std::vector<GidEntry> make_gid_table(const PortAddresses& addresses);

// Returns a GUID that is the same in every process of this machine, and differs between machines
// (by /etc/machine-id) and between device names.
uint64_t default_guid(const std::string& device_name);

}  // namespace softhca
