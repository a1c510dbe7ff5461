#include "topology/sources/sysfs_rdma.h"

#include "tests/unit/topology/sources/made_sysfs.h"
#include "topology/sources/sysfs_files.h"

namespace gdr::topology {
namespace {

class PciLocationOf : public MadeSysfs {
 protected:
  // Expects the function below devices/ to be where the device of class/infiniband is.
  void expect_location(const fs::path& ibdev, const fs::path& function) {
    auto location = pci_location(ibdev, root_);
    ASSERT_TRUE(location.has_value());
    EXPECT_EQ(location->sysfs_path, absolute(function));
    EXPECT_EQ(location->bdf, Bdf::parse(function.filename().string()));
  }
  void expect_none(const fs::path& ibdev) {
    EXPECT_FALSE(pci_location(ibdev, root_).has_value()) << ibdev;
  }
  // Adds an interface on a function, or on a device below it.
  void interface(const std::string& name, const fs::path& function) {
    link(function / "net" / name / "device", function);
    link("class/net/" + name, function / "net" / name);
  }
};

TEST_F(PciLocationOf, Hca_IsItsFunctionAndNumaNode) {
  fs::path function = device("pci0000:3a/0000:3a:00.0/0000:3b:00.1", "pci");
  const fs::path ibdev = hca("mlx5_1", function);
  expect_location(ibdev, function);
  EXPECT_EQ(pci_location(ibdev, root_)->numa_node, -1);
  const std::pair<const char*, int> cases[] = {{"1\n", 1},   {"-1\n", -1},
                                               {"", -1},     {"x\n", -1},
                                               {"-7\n", -1}, {"99999999999999999999\n", -1}};
  for (const auto& [text, node] : cases) {
    write(function / "numa_node", text);
    EXPECT_EQ(pci_location(ibdev, root_)->numa_node, node) << text;
  }
}

TEST_F(PciLocationOf, VirtualFunction_IsTheFunctionItselfNotItsPhysfn) {
  fs::path physical = device("pci0000:3a/0000:3a:00.0/0000:3b:00.0", "pci");
  fs::path function = device("pci0000:3a/0000:3a:00.0/0000:3b:00.2", "pci");
  link(function / "physfn", physical);
  expect_location(hca("mlx5_2", function), function);
}

TEST_F(PciLocationOf, WideDomain_IsKept) {
  fs::path function = device("pci10000:e0/10000:e1:00.0", "pci");
  expect_location(hca("mlx5_0", function), function);
}

TEST_F(PciLocationOf, RxeOnVirtio_IsTheFunctionAboveVirtio) {
  fs::path function = device("pci0000:00/0000:00:03.0", "pci");
  interface("eth0", device("pci0000:00/0000:00:03.0/virtio2", "virtio"));
  expect_location(virtual_hca("rxe0", "eth0\n"), function);
}

TEST_F(PciLocationOf, ChildNamedLikeAFunction_IsSkipped) {
  fs::path function = device("pci0000:00/0000:00:03.0", "pci");
  fs::path child = device("pci0000:00/0000:00:03.0/0000:00:04.0", "platform");
  expect_location(hca("odd0", child), function);
}

TEST_F(PciLocationOf, NoSubsystemLink_IsDecidedByTheName) {
  fs::path function = "devices/pci0000:00/0000:00:05.0";
  fs::create_directories(root_ / function);
  expect_location(hca("mlx5_0", function), function);
}

TEST_F(PciLocationOf, RxeOnVlan_IsTheFunctionOfTheInterfaceBelow) {
  fs::path function = device("pci0000:00/0000:00:06.0", "pci");
  interface("eth1", function);
  fs::create_directories(root_ / "devices/virtual/net/eth1.100");
  link("devices/virtual/net/eth1.100/lower_eth1", function / "net/eth1");
  link("class/net/eth1.100", "devices/virtual/net/eth1.100");
  expect_location(virtual_hca("rxe0", "eth1.100\n"), function);
}

TEST_F(PciLocationOf, RxeOnBondOfTwoOrInALoop_IsNothing) {
  for (const char* name : {"eth1", "eth2"}) {
    fs::path function = device(std::string("pci0000:00/0000:00:0") + name[3] + ".0", "pci");
    interface(name, function);
    link(std::string("class/net/bond0/lower_") + name, function / "net" / name);
  }
  expect_none(virtual_hca("rxe0", "bond0\n"));
  link("class/net/a/lower_b", "class/net/b");
  link("class/net/b/lower_a", "class/net/a");
  expect_none(virtual_hca("rxe1", "a\n"));
}

TEST_F(PciLocationOf, DeviceLinkLoops_IsNothing) {
  link("class/infiniband/x0/device", "class/infiniband/x0/other");
  link("class/infiniband/x0/other", "class/infiniband/x0/device");
  expect_none(root_ / "class/infiniband/x0");
}

TEST_F(PciLocationOf, DeviceLinkDangles_FallsBackToTheParent) {
  fs::path function = device("pci0000:00/0000:00:07.0", "pci");
  link("class/net/eth0/device", function);
  fs::path ibdev = virtual_hca("rxe0", "eth0");
  link("devices/virtual/infiniband/rxe0/device", "devices/gone");
  expect_location(ibdev, function);
}

// The last is a container that sees its HCA but not the interface behind a virtual one.
TEST_F(PciLocationOf, NoDeviceOrNoneOnPci_IsNothing) {
  expect_none(root_ / "class/infiniband/none");
  expect_none("");
  expect_none(hca("softhca0", device("platform/softhca", "platform")));
  expect_none(virtual_hca("rxe0", "eth9\n"));
}

TEST_F(PciLocationOf, NoInfinibandClass_UsesThePathGiven) {
  fs::path function = device("pci0000:00/0000:00:08.0", "pci");
  link("elsewhere/softhca0/device", function);
  expect_location(root_ / "elsewhere/softhca0", function);
}

TEST_F(PciLocationOf, ParentThatIsAPath_IsNothing) {
  fs::path function = device("pci0000:00/0000:00:09.0", "pci");
  fs::create_directories(root_ / "class/net/a");  // or the paths below would not resolve
  link("class/trap/device", function);
  for (const char* parent : {"../trap", "..", ".", "", "\n", "a/../../trap"}) {
    fs::path ibdev = virtual_hca("rxe0", parent);
    expect_none(ibdev);
    fs::remove(ibdev);
  }
}

TEST(SysfsRate, Texts_AreMegabits) {
  EXPECT_EQ(rate_mbps("800 Gb/sec (4X XDR)"), 800000);
  EXPECT_EQ(rate_mbps("2.5 Gb/sec (1X SDR)"), 2500);
  for (const char* text :
       {"", "0 Gb/sec", "-5 Gb/sec", "10", "10 Mb/sec", "fast", "1e300 Gb/sec"}) {
    EXPECT_EQ(rate_mbps(text), 0) << text;
  }
}

}  // namespace
}  // namespace gdr::topology
