#include "plugin/hcas.h"

#include <gtest/gtest.h>

#include "tests/unit/topology/sources/made_sysfs.h"

namespace gdr::plugin {
namespace {

class MergedPath : public topology::MadeSysfs {
 protected:
  // A network controller's function, made by that vendor.
  std::string nic(const std::string& bdf, const std::string& vendor = "0x15b3",
                  const std::string& pci_class = "0x020700") {
    auto function = device("pci0000:3a/" + bdf, "pci");
    write(function / "vendor", vendor + "\n");
    write(function / "class", pci_class + "\n");
    return absolute(function);
  }
};

TEST_F(MergedPath, FunctionsOfACard_AreItsFirst) {
  std::string first = nic("0000:3b:00.0"), second = nic("0000:3b:00.1"), far = nic("0000:3b:02.5");
  EXPECT_EQ(merged_path(second, true), first);
  EXPECT_EQ(merged_path(far, true), first);
  EXPECT_EQ(merged_path(second, false), first);
  EXPECT_EQ(merged_path(far, false), far);  // there is no 02.0
}

TEST_F(MergedPath, FirstFunctionOfAnotherKind_LeavesItAlone) {
  nic("0000:3b:00.0", "0x10de", "0x030200");  // a GPU at the head of a virtual machine's bus
  std::string second = nic("0000:3b:01.0");
  EXPECT_EQ(merged_path(second, true), second);
}

TEST_F(MergedPath, FirstFunctionOfAnotherVendor_LeavesItAlone) {
  nic("0000:3b:00.0", "0x8086");
  std::string second = nic("0000:3b:01.0");
  EXPECT_EQ(merged_path(second, true), second);
}

// In a virtual machine the card's first function may not be there.
TEST_F(MergedPath, NoFirstFunction_StaysItself) {
  std::string function = nic("0000:3b:00.2");
  EXPECT_EQ(merged_path(function, true), function);
}

TEST_F(MergedPath, OtherText_StaysItself) {
  EXPECT_EQ(merged_path("", true), "");
  EXPECT_EQ(merged_path("/sys/devices/platform/x", true), "/sys/devices/platform/x");
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
  keep_accepted(&machine, *transport::HcaFilter::parse("mlx5_0:2"));
  ASSERT_EQ(machine.hcas.size(), 1u);
  ASSERT_EQ(machine.hcas[0].ports.size(), 1u);
  EXPECT_EQ(machine.hcas[0].ports[0].number, 2);
  EXPECT_EQ(find_port(machine, "mlx5_0", 2), (topology::PortRef{0, 0}));
  EXPECT_EQ(find_port(machine, "mlx5_0", 1), (topology::PortRef{-1, -1}));
}

}  // namespace
}  // namespace gdr::plugin
