// A machine with RDMA ports whose facts are set by hand.
#pragma once

#include <string>
#include <utility>

#include "tests/unit/tools/doctor/facts/made_host.h"

namespace gdr::tools::doctor {

// Returns the GID of an IPv4 address, in host byte order.
inline transport::Gid ipv4_gid(uint32_t address) {
  transport::Gid gid{};
  gid[10] = gid[11] = 0xff;
  for (size_t i = 0; i < 4; ++i) gid[12 + i] = static_cast<uint8_t>(address >> (24 - 8 * i));
  return gid;
}

// Returns the link-local GID that ends in `last`.
inline transport::Gid link_local_gid(uint8_t last) {
  transport::Gid gid{};
  gid[0] = 0xfe;
  gid[1] = 0x80;
  gid[15] = last;
  return gid;
}

class MadeFabric : public MadeHost {
 public:
  // Adds an HCA mlx5_<i> with an active InfiniBand port.
  RdmaPort& add_infiniband() {
    RdmaPort& port = add_port("InfiniBand", "400 Gb/sec (4X NDR)");
    port.lid = 7;
    return port;
  }
  // Adds an HCA mlx5_<i> with an active RoCE port, whose network interface eth<i> has the address
  // 10.0.<i>.1/24 and MTU 9000.
  RdmaPort& add_roce() {
    const size_t i = host.ports.hcas.size();
    RdmaPort& port = add_port("Ethernet", "100 Gb/sec (4X EDR)");
    const std::string netdev = "eth" + std::to_string(i);
    const uint32_t address = 0x0a000001 + static_cast<uint32_t>(i << 8);
    port.netdevs = {netdev};
    port.gids = {{{0, link_local_gid(1), transport::GidType::kRoceV1}, netdev},
                 {{1, link_local_gid(1), transport::GidType::kRoceV2}, netdev},
                 {{2, ipv4_gid(address), transport::GidType::kRoceV1}, netdev},
                 {{3, ipv4_gid(address), transport::GidType::kRoceV2}, netdev}};
    host.ports.netdevs[netdev] = {
        .mtu = 9000, .is_up = true, .has_carrier = true, .addresses = {{address, 24}}};
    return port;
  }
  RdmaHca& hca(size_t i) { return host.ports.hcas.at(i); }
  RdmaPort& port(size_t i) { return hca(i).ports.at(0); }
  RdmaNetdev& netdev(size_t i) { return host.ports.netdevs["eth" + std::to_string(i)]; }

  // Adds an HCA whose port has these counters now, and had the others `seconds` before; no others,
  // where that is 0.
  void add_counters(HardwareCounters now, HardwareCounters before, uint64_t seconds) {
    add_infiniband();
    host.counters = {"node17", "boot", 1000000, 90000, {{"mlx5_0", 1, "", std::move(now)}}};
    if (seconds == 0) return;
    host.earlier = host.counters;
    host.earlier->time -= seconds;
    host.earlier->ports[0].values = std::move(before);
  }

  // Adds the topology of a machine with GPUs, whose rails are the ports 1 of mlx5_0 to mlx5_3.
  void add_rails() {
    host.inspection.emplace();
    host.inspection->decision = topology::scene_of(topology::with_nvlink());
  }

 private:
  RdmaPort& add_port(const char* layer, const char* rate) {
    RdmaHca hca;
    hca.name = "mlx5_" + std::to_string(host.ports.hcas.size());
    hca.folder = host.path("/sys/class/infiniband/" + hca.name);
    hca.driver = "mlx5_core";
    hca.pci_ids = "15b3:1021";
    hca.in_verbs = true;
    RdmaPort port;
    port.state = LinkState::kActive;
    port.phys_state = PhysState::kLinkUp;
    port.link_layer = layer;
    port.rate = rate;
    port.active_mtu = port.max_mtu = 4096;
    hca.ports.push_back(std::move(port));
    return host.ports.hcas.emplace_back(std::move(hca)).ports[0];
  }
};

}  // namespace gdr::tools::doctor
