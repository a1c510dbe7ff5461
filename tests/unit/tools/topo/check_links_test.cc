// PCIe links.
#include <gmock/gmock.h>

#include "tests/unit/tools/topo/checked_machine.h"

namespace gdr::tools::topo {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(Check, GpuLinkNarrowerThanThatOfItsPeers_IsNamed) {
  EXPECT_THAT(faults_with([](Machine* machine) { machine->gpus[3].link.width = 8; }),
              ElementsAre(AllOf(HasSubstr("pcie-width: GPU3 (0000:35:00.0): the PCIe link has x8"),
                                HasSubstr("GPU0 (0000:13:00.0)"), HasSubstr("x16"))));
}

TEST(Check, HcaLinkSlowerThanThatOfItsPeers_IsNamed) {
  EXPECT_THAT(
      faults_with([](Machine* machine) { machine->hcas[2].link.gt_per_s = 16; }),
      ElementsAre(HasSubstr("pcie-speed: mlx5_2 (0000:54:00.0): the PCIe link has 16 GT/s")));
}

TEST(Check, SwitchLinkNarrowerThanThatOfItsPeers_IsNamed) {
  EXPECT_THAT(faults_with([](Machine* machine) { machine->switches[1].link.width = 4; }),
              ElementsAre(HasSubstr("pcie-width: PCIe switch 0000:31:00.0: the PCIe link has x4")));
}

TEST(Check, LinkOfAnotherModelOrRole_IsNotCompared) {
  EXPECT_THAT(faults_with([](Machine* machine) {
                machine->hcas[2].link.width = 8;
                machine->hcas[2].ids.device = 0x101b;
                machine->hcas[4].link.width = 4;  // the storage network's
              }),
              IsEmpty());
}

TEST(Check, UnknownLinks_AreANoteOnly) {
  Machine machine = good_machine();
  machine.gpus[3].link = {};
  const CheckReport report = report_on(machine);
  EXPECT_THAT(faults_of(report), IsEmpty());
  EXPECT_THAT(report.notes, Contains("the PCIe links of 1 of 17 devices are unknown"));
}

TEST(Check, GpusWithoutPciIds_ArePeersAndOthersANote) {
  Machine machine = good_machine();
  for (Gpu& gpu : machine.gpus) gpu.ids = {};
  for (Hca& hca : machine.hcas) hca.ids = {};
  EXPECT_THAT(report_on(machine).notes,
              Contains("PCIe links of HCAs are not compared: the source has no model of them"));
  machine.gpus[3].link.width = 8;
  EXPECT_THAT(faults_of(report_on(machine)),
              ElementsAre(HasSubstr("pcie-width: GPU3 (0000:35:00.0): the PCIe link has x8")));
  EXPECT_THAT(report_on(good_machine()).notes, Not(Contains(HasSubstr("not compared"))));
}

TEST(Check, LinkThatRunsBelowWhatItSupports_IsNamed) {
  EXPECT_THAT(faults_with_state([](const Machine& machine, PciStates* states) {
                (*states)[*machine.hcas[1].bdf].current = {8, 16};
                (*states)[machine.gpus[2].bdf].current = {32, 4};
              }),
              ElementsAre(AllOf(HasSubstr("pcie-width: GPU2"), HasSubstr("runs at x4"),
                                HasSubstr("x16 is possible")),
                          AllOf(HasSubstr("pcie-speed: mlx5_1"), HasSubstr("runs at 8 GT/s"),
                                HasSubstr("32 GT/s is possible"))));
}

// Idle GPUs, and with them the switches above, lower the speed of their links.
TEST(Check, SlowLinkOfAnIdleGpu_IsNoFault) {
  EXPECT_THAT(faults_with_state([](const Machine& machine, PciStates* states) {
                (*states)[machine.gpus[2].bdf].current = {2.5, 16};
                (*states)[machine.switches[1].bdf].current = {2.5, 16};
              }),
              IsEmpty());
}

}  // namespace
}  // namespace gdr::tools::topo
