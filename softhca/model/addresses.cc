#include "softhca/model/addresses.h"

#include <arpa/inet.h>
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

// The link-local GID fe80::/64 with the port's GUID, which is entry 0 of every GID table
// (IBTA 4.1.1).
ibv_gid link_local(uint64_t guid, uint32_t port) {
  ibv_gid gid = {};
  gid.global.subnet_prefix = htobe64(0xfe80000000000000);
  gid.global.interface_id = htobe64(guid + port - 1);
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

std::vector<GidEntry> make_gid_table(const PortAddresses& addresses, uint32_t port) {
  std::vector<GidEntry> table;
  auto add = [&](const ibv_gid& gid) {
    if (!addresses.ethernet) return table.push_back({gid, IBV_GID_TYPE_IB});
    table.push_back({gid, IBV_GID_TYPE_ROCE_V1});
    table.push_back({gid, IBV_GID_TYPE_ROCE_V2});
  };
  add(link_local(addresses.guid, port));
  for (const std::string& text : addresses.gids) {
    ibv_gid gid = {};
    inet_pton(AF_INET6, text.c_str(), gid.raw);
    // The list is that of port 1; each further port has the next address of every entry.
    gid.raw[15] = static_cast<uint8_t>(gid.raw[15] + port - 1);
    add(gid);
  }
  if (addresses.ethernet && addresses.gids.empty()) add(mapped_ipv4(addresses.guid + port - 1));
  return table;
}

}  // namespace softhca
