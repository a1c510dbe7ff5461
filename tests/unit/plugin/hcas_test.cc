#include "plugin/machine/hcas.h"

#include <gtest/gtest.h>

#include "tests/unit/topology/made_sysfs.h"

namespace gdr::plugin {
namespace {

class MergedPath : public topology::MadeSysfs {};

TEST_F(MergedPath, FunctionOfACard_IsItsFirstFunction) {
  device("pci0000:3a/0000:3b:00.0", "pci");
  auto second = device("pci0000:3a/0000:3b:00.1", "pci");
  auto virtual_function = device("pci0000:3a/0000:3b:02.5", "pci");
  EXPECT_EQ(merged_path(absolute(second)), absolute("devices/pci0000:3a/0000:3b:00.0"));
  EXPECT_EQ(merged_path(absolute(virtual_function)), absolute("devices/pci0000:3a/0000:3b:00.0"));
}

// In a virtual machine the card's first function may not be there.
TEST_F(MergedPath, NoFirstFunction_StaysItself) {
  auto function = device("pci0000:3a/0000:3b:00.2", "pci");
  EXPECT_EQ(merged_path(absolute(function)), absolute(function));
}

TEST_F(MergedPath, OtherText_StaysItself) {
  EXPECT_EQ(merged_path(""), "");
  EXPECT_EQ(merged_path("/sys/devices/platform/x"), "/sys/devices/platform/x");
}

topology::Hca hca_with_ports(const std::string& name, int ports) {
  topology::Hca hca;
  hca.name = name;
  for (int i = 1; i <= ports; ++i) {
    hca.ports.push_back(topology::Port{});
    hca.ports.back().number = i;
  }
  return hca;
}

TEST(KeepAccepted, PortsThatTheFilterRefuses_Go) {
  topology::Machine machine;
  machine.hcas = {hca_with_ports("mlx5_0", 2), hca_with_ports("mlx5_1", 1)};
  keep_accepted(&machine, *HcaFilter::parse("mlx5_0:2"));
  ASSERT_EQ(machine.hcas.size(), 1u);
  ASSERT_EQ(machine.hcas[0].ports.size(), 1u);
  EXPECT_EQ(machine.hcas[0].ports[0].number, 2);
  EXPECT_EQ(find_port(machine, "mlx5_0", 2), (topology::PortRef{0, 0}));
  EXPECT_EQ(find_port(machine, "mlx5_0", 1), (topology::PortRef{-1, -1}));
}

}  // namespace
}  // namespace gdr::plugin
