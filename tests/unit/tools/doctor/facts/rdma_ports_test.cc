#include "tools/doctor/facts/rdma_ports.h"

#include <gmock/gmock.h>

#include "tests/unit/tools/doctor/facts/made_host.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::ElementsAre;

constexpr char kHca[] = "/sys/class/infiniband/mlx5_0";

// An HCA with a RoCE port, whose interface is a VLAN beside its own.
void write_hca(MadeHost* made) {
  const std::string hca = kHca, port = hca + "/ports/1";
  made->write(hca + "/node_type", "1: CA\n");
  const std::string function = "/sys/devices/pci0000:17/0000:17:01.0/0000:3b:00.0";
  made->link(hca + "/device", function);
  made->link(function + "/driver", "/sys/bus/pci/drivers/mlx5_core");
  made->write(function + "/vendor", "0x15b3\n");
  made->write(function + "/device", "0x1021\n");
  made->write(port + "/state", "4: ACTIVE\n");
  made->write(port + "/phys_state", "5: LinkUp\n");
  made->write(port + "/rate", "400 Gb/sec (4X NDR)\n");
  made->write(port + "/link_layer", "Ethernet\n");
  made->write(port + "/lid", "0x0\n");
  made->write(hca + "/node_guid", "946d:ae03:00c0:1234\n");
  made->write(port + "/gids/0", "fe80:0000:0000:0000:0e42:a1ff:fe55:62a2\n");
  made->write(port + "/gids/1", "0000:0000:0000:0000:0000:ffff:0a00:0001\n");
  made->write(port + "/gids/2", "0000:0000:0000:0000:0000:0000:0000:0000\n");
  made->write(port + "/gids/10", "0000:0000:0000:0000:0000:ffff:0a01:0001\n");
  for (const char* index : {"0", "1", "10"}) {
    made->write(port + "/gid_attrs/types/" + index, "RoCE v2\n");
    made->write(port + "/gid_attrs/ndevs/" + index,
                index == std::string("10") ? "eth0.100\n" : "eth0\n");
  }
  made->write("/sys/class/net/eth0/mtu", "4200\n");
  made->write("/sys/class/net/eth0/flags", "0x1003\n");
  made->write("/sys/class/net/eth0/carrier", "1\n");
}

TEST(RdmaPorts, Sysfs_IsReadInFull) {
  MadeHost made;
  write_hca(&made);
  const RdmaPorts ports = read_rdma_ports(made.host);
  ASSERT_EQ(ports.hcas.size(), 1u);
  const RdmaHca& hca = ports.hcas[0];
  EXPECT_EQ(hca.name, "mlx5_0");
  EXPECT_EQ(hca.driver, "mlx5_core");
  EXPECT_EQ(hca.pci + " " + hca.pci_ids, "0000:3b:00.0 15b3:1021");
  EXPECT_FALSE(hca.in_verbs.has_value());
  ASSERT_EQ(hca.ports.size(), 1u);
  const RdmaPort& port = hca.ports[0];
  EXPECT_TRUE(port.is_active());
  EXPECT_EQ(port.phys_state, PhysState::kLinkUp);
  EXPECT_EQ(port.lid, 0);
  EXPECT_THAT(port.netdevs, ElementsAre("eth0", "eth0.100"));
  ASSERT_EQ(port.gids.size(), 3u);
  EXPECT_EQ(port.gids[2].entry.index, 10);
  EXPECT_EQ(transport::to_string(port.gids[1].entry.gid), "::ffff:10.0.0.1");
  EXPECT_EQ(hca.guid, "946d:ae03:00c0:1234");
}

TEST(RdmaPorts, NetworkInterface_HasItsSettingsAndTheAddressesOfGids) {
  MadeHost made;
  write_hca(&made);
  made.write("/proc/net/route",
             "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
             "eth0 00000000 0100000A 0003 0 0 0 00000000 0 0 0\n"
             "eth0 0000000A 00000000 0001 0 0 0 00FFFFFF 0 0 0\n");
  const RdmaPorts ports = read_rdma_ports(made.host);
  const RdmaNetdev& netdev = ports.netdevs.at("eth0");
  EXPECT_EQ(netdev.mtu, 4200);
  EXPECT_EQ(netdev.is_up, true);
  EXPECT_EQ(netdev.has_carrier, true);
  ASSERT_EQ(netdev.addresses.size(), 1u);
  EXPECT_EQ(to_string(netdev.addresses[0]), "10.0.0.1/24");
}

TEST(RdmaPorts, CopyWithoutRoutes_HasAddressesOfUnknownPrefix) {
  MadeHost made;
  write_hca(&made);
  const RdmaPorts ports = read_rdma_ports(made.host);
  ASSERT_EQ(ports.netdevs.at("eth0").addresses.size(), 1u);
  EXPECT_EQ(ports.netdevs.at("eth0").addresses[0].prefix_bits, 0);
}

TEST(RdmaPorts, DeviceOfSoftware_HasTheInterfaceOfItsParent) {
  MadeHost made;
  made.write("/sys/class/infiniband/rxe0/parent", "eth1\n");
  made.write("/sys/class/infiniband/rxe0/ports/1/state", "1: DOWN\n");
  made.write("/sys/class/infiniband/rxe0/ports/1/link_layer", "Ethernet\n");
  const RdmaPorts ports = read_rdma_ports(made.host);
  EXPECT_TRUE(ports.hcas.at(0).is_virtual);
  EXPECT_THAT(ports.hcas[0].ports.at(0).netdevs, ElementsAre("eth1"));
  EXPECT_EQ(ports.hcas[0].ports[0].state, LinkState::kDown);
}

TEST(RdmaPorts, OddContent_IsUnknown) {
  MadeHost made;
  const std::string port = std::string(kHca) + "/ports/1";
  made.write(port + "/state", "99: EXOTIC\n");
  made.write(port + "/phys_state", "\n");
  made.write(port + "/lid", "0xzz\n");
  made.write(port + "/link_layer", "Unspecified\n");
  made.write(port + "/gids/0", "fe80:\n");
  made.write(port + "/gids/x", "0000:0000:0000:0000:0000:ffff:0a00:0001\n");
  made.write(port + "/gids/1", "0000:0000:0000:0000:0000:ffff:0a00;0001\n");
  made.write(std::string(kHca) + "/ports/none/state", "4: ACTIVE\n");
  const RdmaPorts ports = read_rdma_ports(made.host);
  ASSERT_EQ(ports.hcas.at(0).ports.size(), 1u);
  const RdmaPort& one = ports.hcas[0].ports[0];
  EXPECT_EQ(one.state, LinkState::kUnknown);
  EXPECT_EQ(one.phys_state, PhysState::kUnknown);
  EXPECT_FALSE(one.is_ethernet() || one.is_infiniband());
  EXPECT_FALSE(one.lid.has_value());
  EXPECT_TRUE(one.gids.empty());
}

TEST(RdmaPorts, EmptyRoot_HasNone) { EXPECT_TRUE(read_rdma_ports(MadeHost().host).hcas.empty()); }

}  // namespace
}  // namespace gdr::tools::doctor
