#include "softhca/model/addresses.h"

#include <endian.h>

#include <cstring>
#include <fstream>

namespace softhca {

namespace {

// FNV-1a, which is the same in every build of the library.
uint64_t hash(const std::string& text) {
  uint64_t value = 0xcbf29ce484222325;
  for (char c : text) value = (value ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return value;
}

// The GID of a port's GUID and subnet, which is entry 0 of every GID table (IBTA 4.1.1).
ibv_gid default_gid(uint64_t prefix, uint64_t guid) {
  ibv_gid gid = {};
  gid.global.subnet_prefix = htobe64(prefix);
  gid.global.interface_id = htobe64(guid);
  return gid;
}

// An IPv4-mapped address in 10.0.0.0/8, as a RoCE port with an IPv4 address has.
ibv_gid mapped_ipv4(uint64_t bits) {
  ibv_gid gid = {};
  const uint8_t address[6] = {0xff,
                              0xff,
                              10,
                              static_cast<uint8_t>(bits >> 16),
                              static_cast<uint8_t>(bits >> 8),
                              static_cast<uint8_t>(bits)};
  memcpy(gid.raw + 10, address, sizeof address);
  return gid;
}

}  // namespace

uint64_t default_guid(const std::string& device_name) {
  std::ifstream file("/etc/machine-id");
  std::string machine;
  std::getline(file, machine);
  // An EUI-64 made from a 48-bit address (fffe in the middle), locally administered (02).
  uint64_t bits = hash(machine + "/" + device_name);
  return 0x0200000000000000 | (bits & 0xffff00000000) << 8 | 0xfffe000000 | (bits & 0xffffff);
}

std::vector<GidEntry> make_gid_table(const PortAddresses& addresses) {
  std::vector<GidEntry> table;
  auto add = [&](const ibv_gid& gid) {
    if (!addresses.ethernet) return table.push_back({gid, IBV_GID_TYPE_IB});
    table.push_back({gid, IBV_GID_TYPE_ROCE_V1});
    table.push_back({gid, IBV_GID_TYPE_ROCE_V2});
  };
  add(default_gid(addresses.subnet_prefix, addresses.guid));
  if (addresses.flid != 0) {
    add(default_gid(addresses.subnet_prefix | uint64_t{addresses.flid} << 16, addresses.guid));
  }
  for (const ibv_gid& gid : addresses.gids) add(gid);
  if (addresses.ethernet && addresses.gids.empty()) add(mapped_ipv4(addresses.guid));
  return table;
}

}  // namespace softhca
