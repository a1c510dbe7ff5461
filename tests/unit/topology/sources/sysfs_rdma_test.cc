#include "topology/sources/sysfs_rdma.h"

#include "tests/unit/topology/sources/made_sysfs.h"

namespace gdr::topology {
namespace {

class SysfsRdma : public MadeSysfs {};

TEST_F(SysfsRdma, PciLocation_Hca_IsItsFunctionAndNumaNode) {
  fs::path function = device("pci0000:3a/0000:3a:00.0/0000:3b:00.1", "pci");
  write(function / "numa_node", "1\n");
  auto location = pci_location(hca("mlx5_1", function), root_);
  ASSERT_TRUE(location.has_value());
  EXPECT_EQ(location->sysfs_path, absolute(function));
  EXPECT_EQ(location->bdf.to_string(), "0000:3b:00.1");
  EXPECT_EQ(location->numa_node, 1);
}

TEST_F(SysfsRdma, PciLocation_VirtualFunction_IsTheFunctionItselfNotItsPhysfn) {
  fs::path physical = device("pci0000:3a/0000:3a:00.0/0000:3b:00.0", "pci");
  fs::path function = device("pci0000:3a/0000:3a:00.0/0000:3b:00.2", "pci");
  link(function / "physfn", physical);
  auto location = pci_location(hca("mlx5_2", function), root_);
  ASSERT_TRUE(location.has_value());
  EXPECT_EQ(location->sysfs_path, absolute(function));
  EXPECT_EQ(location->bdf.function, 2);
}

TEST_F(SysfsRdma, PciLocation_WideDomain_IsKept) {
  fs::path function = device("pci10000:e0/10000:e1:00.0", "pci");
  auto location = pci_location(hca("mlx5_0", function), root_);
  ASSERT_TRUE(location.has_value());
  EXPECT_EQ(location->bdf.domain, 0x10000u);
}

TEST_F(SysfsRdma, PciLocation_RxeOnVirtio_IsTheFunctionAboveVirtio) {
  fs::path function = device("pci0000:00/0000:00:03.0", "pci");
  fs::path virtio = device("pci0000:00/0000:00:03.0/virtio2", "virtio");
  fs::path net = virtio / "net/eth0";
  link(net / "device", virtio);
  link("class/net/eth0", net);
  write(function / "numa_node", "-1\n");
  auto location = pci_location(virtual_hca("rxe0", "eth0\n"), root_);
  ASSERT_TRUE(location.has_value());
  EXPECT_EQ(location->sysfs_path, absolute(function));
  EXPECT_EQ(location->numa_node, -1);
}

TEST_F(SysfsRdma, PciLocation_ChildNamedLikeAFunction_IsSkipped) {
  fs::path function = device("pci0000:00/0000:00:03.0", "pci");
  fs::path child = device("pci0000:00/0000:00:03.0/0000:00:04.0", "platform");
  auto location = pci_location(hca("odd0", child), root_);
  ASSERT_TRUE(location.has_value());
  EXPECT_EQ(location->sysfs_path, absolute(function));
}

TEST_F(SysfsRdma, PciLocation_NoSubsystemLink_IsDecidedByTheName) {
  fs::path function = "devices/pci0000:00/0000:00:05.0";
  fs::create_directories(root_ / function);
  auto location = pci_location(hca("mlx5_0", function), root_);
  ASSERT_TRUE(location.has_value());
  EXPECT_EQ(location->bdf.device, 5);
}

TEST_F(SysfsRdma, PciLocation_RxeOnVlan_IsTheFunctionOfTheInterfaceBelow) {
  fs::path function = device("pci0000:00/0000:00:06.0", "pci");
  link(function / "net/eth1/device", function);
  link("class/net/eth1", function / "net/eth1");
  fs::create_directories(root_ / "devices/virtual/net/eth1.100");
  link("devices/virtual/net/eth1.100/lower_eth1", function / "net/eth1");
  link("class/net/eth1.100", "devices/virtual/net/eth1.100");
  auto location = pci_location(virtual_hca("rxe0", "eth1.100\n"), root_);
  ASSERT_TRUE(location.has_value());
  EXPECT_EQ(location->sysfs_path, absolute(function));
}

TEST_F(SysfsRdma, PciLocation_RxeOnBondOfTwo_IsNothing) {
  for (const char* name : {"eth1", "eth2"}) {
    fs::path function = device(std::string("pci0000:00/0000:00:0") + name[3] + ".0", "pci");
    link(function / "net" / name / "device", function);
    link(std::string("class/net/") + name, function / "net" / name);
    link(std::string("class/net/bond0/lower_") + name, function / "net" / name);
  }
  EXPECT_FALSE(pci_location(virtual_hca("rxe0", "bond0\n"), root_).has_value());
}

TEST_F(SysfsRdma, PciLocation_InterfacesStackedInALoop_IsNothing) {
  link("class/net/a/lower_b", "class/net/b");
  link("class/net/b/lower_a", "class/net/a");
  EXPECT_FALSE(pci_location(virtual_hca("rxe0", "a\n"), root_).has_value());
}

TEST_F(SysfsRdma, PciLocation_DeviceLinkLoops_IsNothing) {
  link("class/infiniband/x0/device", "class/infiniband/x0/other");
  link("class/infiniband/x0/other", "class/infiniband/x0/device");
  EXPECT_FALSE(pci_location(root_ / "class/infiniband/x0", root_).has_value());
}

TEST_F(SysfsRdma, PciLocation_DeviceLinkDangles_FallsBackToTheParent) {
  fs::path function = device("pci0000:00/0000:00:07.0", "pci");
  link("class/net/eth0/device", function);
  fs::path ibdev = virtual_hca("rxe0", "eth0");
  link("devices/virtual/infiniband/rxe0/device", "devices/gone");
  auto location = pci_location(ibdev, root_);
  ASSERT_TRUE(location.has_value());
  EXPECT_EQ(location->bdf.device, 7);
}

TEST_F(SysfsRdma, PciLocation_NoSuchDevice_IsNothing) {
  EXPECT_FALSE(pci_location(root_ / "class/infiniband/none", root_).has_value());
  EXPECT_FALSE(pci_location("", root_).has_value());
}

TEST_F(SysfsRdma, PciLocation_DeviceOutsidePci_IsNothing) {
  fs::path folder = device("platform/softhca", "platform");
  EXPECT_FALSE(pci_location(hca("softhca0", folder), root_).has_value());
}

TEST_F(SysfsRdma, PciLocation_NoInfinibandClass_UsesThePathGiven) {
  fs::path function = device("pci0000:00/0000:00:08.0", "pci");
  link("elsewhere/softhca0/device", function);
  auto location = pci_location(root_ / "elsewhere/softhca0", root_);
  ASSERT_TRUE(location.has_value());
  EXPECT_EQ(location->bdf.device, 8);
}

// A container that sees its HCA but not the interface behind a virtual one.
TEST_F(SysfsRdma, PciLocation_ParentOfAnotherNamespace_IsNothing) {
  EXPECT_FALSE(pci_location(virtual_hca("rxe0", "eth9\n"), root_).has_value());
}

TEST_F(SysfsRdma, PciLocation_ParentThatIsAPath_IsNothing) {
  fs::path function = device("pci0000:00/0000:00:09.0", "pci");
  fs::create_directories(root_ / "class/net/a");  // or the paths below would not resolve
  link("class/trap/device", function);
  for (const char* parent : {"../trap", "..", ".", "", "\n", "a/../../trap"}) {
    fs::path ibdev = virtual_hca("rxe0", parent);
    EXPECT_FALSE(pci_location(ibdev, root_).has_value()) << parent;
    fs::remove(ibdev);
  }
}

TEST_F(SysfsRdma, PciLocation_NumaNodeUnreadable_IsUnknown) {
  fs::path function = device("pci0000:00/0000:00:0a.0", "pci");
  fs::path ibdev = hca("mlx5_0", function);
  EXPECT_EQ(pci_location(ibdev, root_)->numa_node, -1);
  for (const char* text : {"", "x\n", "-7\n", "99999999999999999999\n"}) {
    write(function / "numa_node", text);
    EXPECT_EQ(pci_location(ibdev, root_)->numa_node, -1) << text;
  }
}

}  // namespace
}  // namespace gdr::topology
