#include <gmock/gmock.h>

#include "tests/unit/topology/machines.h"
#include "tests/unit/topology/sources/made_sysfs.h"
#include "tools/inspection/inspection.h"

namespace gdr::tools::topo {
namespace {

TEST(PciState, LargestBar_IsAmongTheFirstSixRegions) {
  EXPECT_EQ(largest_bar("0x00000000a0000000 0x00000000a0ffffff 0x0000000000040200\n"
                        "0x0000002000000000 0x0000003fffffffff 0x000000000014220c\n"
                        "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"),
            uint64_t{1} << 37);
  EXPECT_EQ(largest_bar("0x0 0x0 0x0\n0x0 0x0 0x0\n0x0 0x0 0x0\n0x0 0x0 0x0\n0x0 0x0 0x0\n"
                        "0x0 0x0 0x0\n0x1000 0xffffff 0x40200\n"),
            0u);
  EXPECT_EQ(largest_bar(""), 0u);
  EXPECT_EQ(largest_bar("garbage"), 0u);
}

class PciStateFiles : public topology::MadeSysfs {};

TEST_F(PciStateFiles, Files_AreReadByAddress) {
  topology::Machine machine = topology::flat(1, 1);
  const auto folder = device("pci0000:00/" + machine.gpus[0].bdf.to_string(), "pci");
  link("bus/pci/devices/" + machine.gpus[0].bdf.to_string(), folder);
  write(folder / "current_link_speed", "16.0 GT/s PCIe\n");
  write(folder / "current_link_width", "8\n");
  write(folder / "resource", "0x1000 0x1fff 0x200\n");
  const auto states = read_pci_states(machine, root_);
  ASSERT_EQ(states.size(), 1u);
  EXPECT_EQ(states.at(machine.gpus[0].bdf), (PciState{{16, 8}, 4096}));
}

// The kernel shows a width of 255, or 63 of newer functions, where it does not know.
TEST_F(PciStateFiles, UnknownLink_IsZero) {
  topology::Machine machine = topology::flat(0, 1);
  const auto folder = device("pci0000:00/" + machine.hcas[0].bdf->to_string(), "pci");
  link("bus/pci/devices/" + machine.hcas[0].bdf->to_string(), folder);
  write(folder / "current_link_speed", "32.0 GT/s PCIe\n");
  write(folder / "current_link_width", "63\n");
  EXPECT_EQ(read_pci_states(machine, root_).at(*machine.hcas[0].bdf), PciState{});
}

}  // namespace
}  // namespace gdr::tools::topo
