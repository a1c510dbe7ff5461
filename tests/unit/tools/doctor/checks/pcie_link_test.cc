#include "tests/unit/tools/doctor/facts/made_pci.h"

namespace gdr::tools::doctor {
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
      {"first GPU",
       [](Machine* machine) { machine->gpus[0].link.width = 8; },
       {"GPU0 (0000:13:00.0): the PCIe link has x8, that of its peers GPU1 (0000:15:00.0), "}},
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
      {"speeds that NCCL assumes",
       [](Machine* machine) {
         machine->gpus[3].link = machine->hcas[2].link = {8, 16, true};
         machine->switches[1].link = {8, 16, true};
       },
       {}},
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
  topo::PciStates states = good_states(machine);
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

// A topology file states what NCCL takes, which the hardware need not have.
TEST(CheckLinks, WhatSysfsStates_CountsInPlaceOfTheTopologyFile) {
  Machine machine = good_machine();
  topo::PciStates states = good_states(machine);
  for (auto& [bdf, state] : states) state.best = {32, 16};
  machine.hcas[2].link = machine.gpus[1].link = {16, 8};
  machine.switches[1].link = {64, 32};
  EXPECT_THAT(found_on(machine, states), IsEmpty());
  states[*machine.hcas[1].bdf].best.width = 8;
  EXPECT_THAT(found_on(machine, states),
              ElementsAre(HasSubstr("pcie-width: mlx5_1 (0000:34:00.0): the PCIe link has x8")));
}

topology::PciLink& current_of(MadePci* made, int bus) {
  return made->host.pci_states[topology::bdf_of(bus)].current;
}

// GPU0 is 0000:1a:00.0, and mlx5_0 0000:1b:00.0.
TEST(PcieLink, EachCase_HasItsVerdict) {
  expect_worst<MadePci>(
      "pcie-link",
      {{"as supported", [](MadePci*) {}, Verdict::kOk, "", "3 PCIe links have the width"},
       {"GPU with fewer lanes",
        [](MadePci* made) {
          current_of(made, 0x1a) = {32, 8};
        },
        Verdict::kFailure, "", "runs at x8, and x16 is possible"},
       {"HCA below what its port needs",
        [](MadePci* made) {
          current_of(made, 0x1b) = {16, 16};
        },
        Verdict::kFailure, "", "it carries 252 Gb/s, the HCA's ports 400 Gb/s"},
       {"HCA that carries what its port needs",
        [](MadePci* made) {
          current_of(made, 0x1b) = {16, 16};
          made->machine().hcas[0].ports[0].speed_mbps = 200000;
        },
        Verdict::kWarning, "", "it carries 252 Gb/s, the HCA's ports 200 Gb/s"},
       {"HCA without an active port",
        [](MadePci* made) {
          current_of(made, 0x1b) = {32, 8};
          made->machine().hcas[0].ports[0].state = topology::Port::State::kDown;
        },
        Verdict::kWarning, "", "runs at x8"},
       {"virtual machine",
        [](MadePci* made) {
          made->make_virtual();
          current_of(made, 0x1a) = {32, 8};
        },
        Verdict::kWarning, "", "runs at x8"},
       {"nothing stated", [](MadePci* made) { made->host.pci_states.clear(); }, Verdict::kUnknown,
        "", "the kernel does not state"},
       {"no device", [](MadePci* made) { made->set(topology::flat(0, 0)); }, Verdict::kNothing, "",
        ""},
       {"no topology", [](MadePci* made) { made->host.inspection.reset(); }, Verdict::kUnknown, "",
        ""}});
}

}  // namespace
}  // namespace gdr::tools::doctor
