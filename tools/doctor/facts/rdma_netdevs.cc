// The network interfaces beside the ports of HCAs.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <bit>
#include <sstream>
#include <system_error>

#include "tools/doctor/facts/host.h"
#include "topology/sources/sysfs_files.h"

namespace gdr::tools::doctor {
namespace {

namespace fs = std::filesystem;

RdmaNetdev read_netdev(const fs::path& folder) {
  RdmaNetdev netdev;
  const auto number = [&](const char* name, int base) {
    return number_in_sysfs(topology::first_line(folder / name), base);
  };
  netdev.mtu = number("mtu", 10);
  if (const auto flags = number("flags", 16)) netdev.is_up = (*flags & IFF_UP) != 0;
  // The kernel answers EINVAL for an interface that is not up.
  if (const auto carrier = number("carrier", 10)) netdev.has_carrier = *carrier != 0;
  return netdev;
}

void add_live_addresses(RdmaPorts* ports) {
  ifaddrs* head = nullptr;
  if (getifaddrs(&head) != 0) return;
  for (const ifaddrs* one = head; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    if (one->ifa_netmask == nullptr || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    const auto word = [](const sockaddr* address) {
      return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr);
    };
    ports->netdevs[one->ifa_name].addresses.push_back(
        {word(one->ifa_addr), std::popcount(word(one->ifa_netmask))});
  }
  freeifaddrs(head);
}

// A connected subnet of /proc/net/route.
struct ConnectedRoute {
  std::string netdev;
  uint32_t subnet = 0, mask = 0;
};

// Columns: Iface Destination Gateway Flags RefCnt Use Metric Mask; addresses are in hexadecimal, as
// the machine has them in memory. A copy of a machine of the other byte order is not known.
std::vector<ConnectedRoute> connected_routes(const Host& host) {
  std::vector<ConnectedRoute> routes;
  std::istringstream lines(host.read("/proc/net/route").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    ConnectedRoute route;
    std::string flags, unused;
    uint32_t subnet = 0, gateway = 0, mask = 0;
    words >> route.netdev >> std::hex >> subnet >> gateway >> flags >> unused >> unused >> unused >>
        mask;
    if (!words || gateway != 0 || mask == 0) continue;
    route.subnet = ntohl(subnet);
    route.mask = ntohl(mask);
    routes.push_back(std::move(route));
  }
  return routes;
}

// The addresses of a copy are those of GIDs, with the prefixes of the connected routes. Without
// such a route the prefix is unknown.
void add_copied_addresses(const Host& host, RdmaPorts* ports) {
  const std::vector<ConnectedRoute> routes = connected_routes(host);
  for (const RdmaHca& hca : ports->hcas) {
    for (const RdmaPort& port : hca.ports) {
      for (const RdmaGid& gid : port.gids) {
        const bool is_v2 = gid.entry.type == transport::GidType::kRoceV2;
        if (!is_v2 || gid.netdev.empty() || !transport::is_ipv4_mapped(gid.entry.gid)) continue;
        const auto& bytes = gid.entry.gid;
        const uint32_t address = uint32_t{bytes[12]} << 24 | uint32_t{bytes[13]} << 16 |
                                 uint32_t{bytes[14]} << 8 | bytes[15];
        Ipv4Address found{address, 0};
        for (const ConnectedRoute& route : routes) {
          if (route.netdev == gid.netdev && (address & route.mask) == route.subnet) {
            found.prefix_bits = std::popcount(route.mask);
          }
        }
        ports->netdevs[gid.netdev].addresses.push_back(found);
      }
    }
  }
}

}  // namespace

void read_rdma_netdevs(const Host& host, RdmaPorts* ports) {
  std::error_code error;
  for (fs::directory_iterator it(host.path("/sys/class/net"), error), end; !error && it != end;
       it.increment(error)) {
    ports->netdevs[it->path().filename().string()] = read_netdev(it->path());
  }
  if (!host.is_live) return add_copied_addresses(host, ports);
  add_live_addresses(ports);
}

std::string to_string(const Ipv4Address& one) {
  return fmt::format("{}.{}.{}.{}/{}", one.address >> 24, one.address >> 16 & 255,
                     one.address >> 8 & 255, one.address & 255, one.prefix_bits);
}

}  // namespace gdr::tools::doctor
