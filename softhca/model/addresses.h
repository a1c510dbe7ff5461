// The addresses of a port: its GID table, and the GUID of a device for which none is configured.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <vector>

namespace softhca {

struct GidEntry {
  ibv_gid gid = {};
  ibv_gid_type type = IBV_GID_TYPE_IB;
};

// What a GID table is made from.
struct PortAddresses {
  uint64_t guid;                         // of port 1
  const std::vector<std::string>& gids;  // IPv6 addresses of port 1
  bool ethernet;
};

// Returns the GID table of a port, which counts from 1: the link-local GID, then the configured
// addresses. Ethernet has each as RoCE v1 and v2; without configured addresses it has one
// IPv4-mapped address.
std::vector<GidEntry> make_gid_table(const PortAddresses& addresses, uint32_t port);

// Returns a GUID that is the same in every process of this machine, and differs between machines
// (by /etc/machine-id) and between device names.
uint64_t default_guid(const std::string& device_name);

}  // namespace softhca
