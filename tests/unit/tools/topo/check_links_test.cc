// PCIe links.
#include "tests/unit/tools/topo/checked_machine.h"

namespace gdr::tools::topo {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(CheckLinks, ComparedWithPeers_NameWhatIsSlower) {
  expect_found({
      {"good", [](Machine*) {}, {}},
      {"GPU",
       [](Machine* machine) { machine->gpus[3].link.width = 8; },
       {"pcie-width: GPU3 (0000:35:00.0): the PCIe link has x8, that of its peers GPU0 "
        "(0000:13:00.0), "}},
      {"HCA",
       [](Machine* machine) { machine->hcas[2].link.gt_per_s = 16; },
       {"pcie-speed: mlx5_2 (0000:54:00.0): the PCIe link has 16 GT/s"}},
      {"switch",
       [](Machine* machine) { machine->switches[1].link.width = 4; },
       {"pcie-width: PCIe switch 0000:31:00.0: the PCIe link has x4"}},
      {"another model or role",
       [](Machine* machine) {
         machine->hcas[2].link.width = 8;
         machine->hcas[2].ids.device = 0x101b;
         machine->hcas[4].link.width = 4;  // the storage network's
       },
       {}},
      {"unknown", [](Machine* machine) { machine->gpus[3].link = {}; }, {}},
      {"GPUs without PCI IDs are peers, HCAs are not",
       [](Machine* machine) {
         for (Gpu& gpu : machine->gpus) gpu.ids = {};
         for (Hca& hca : machine->hcas) hca.ids = {};
         machine->gpus[3].link.width = machine->hcas[2].link.width = 8;
       },
       {"pcie-width: GPU3 (0000:35:00.0): the PCIe link has x8"}},
  });
}

// Idle GPUs, and with them the switches above, lower the speed of their links.
TEST(CheckLinks, ComparedWithWhatTheySupport_NameWhatRunsBelow) {
  const Machine machine = good_machine();
  PciStates states = good_states(machine);
  states[machine.gpus[2].bdf].current = {2.5, 16};
  states[machine.switches[1].bdf].current = {2.5, 16};
  EXPECT_THAT(found_on(machine, states), IsEmpty());
  states[machine.gpus[2].bdf].current = {32, 4};
  states[*machine.hcas[1].bdf].current = {8, 16};
  EXPECT_THAT(
      found_on(machine, states),
      ElementsAre(AllOf(HasSubstr("pcie-width: GPU2"), HasSubstr("runs at x4, and x16 is possible"),
                        HasSubstr("lspci -vv -s 0000:33:00.0")),
                  AllOf(HasSubstr("pcie-speed: mlx5_1"), HasSubstr("runs at 8 GT/s, and 32 GT/s"),
                        HasSubstr("; it carries 126 Gb/s, the HCA's ports 400 Gb/s"))));
}

}  // namespace
}  // namespace gdr::tools::topo
