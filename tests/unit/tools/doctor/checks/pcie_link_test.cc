#include <gmock/gmock.h>

#include "tests/unit/tools/doctor/made_pci.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;

topology::PciLink& current_of(MadePci* made, int bus) {
  return made->host.pci_states[topology::bdf_of(bus)].current;
}

TEST(PcieLink, LinksAtWhatTheySupport_AreOk) {
  MadePci made;
  const Observations seen = pcie_link().run(made.host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kOk);
  EXPECT_THAT(seen[0].evidence, ::testing::StartsWith("3 of 3 PCIe links"));
}

TEST(PcieLink, IdleGpu_IsOkWithItsSpeed) {
  MadePci made;
  current_of(&made, 0x1a) = {2.5, 16};
  const Observations seen = pcie_link().run(made.host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kOk);
  EXPECT_THAT(seen[0].evidence, HasSubstr("GPU0 (0000:1a:00.0) at 2.5 of 32 GT/s"));
}

TEST(PcieLink, GpuWithFewerLanes_IsAFailure) {
  MadePci made;
  current_of(&made, 0x1a) = {32, 8};
  const Observations seen = pcie_link().run(made.host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kFailure);
  EXPECT_EQ(seen[0].subject, "GPU0 (0000:1a:00.0)");
  EXPECT_THAT(seen[0].evidence, HasSubstr("runs at x8, and x16 is possible"));
  EXPECT_THAT(seen[0].fix, HasSubstr("lspci -vv -s 0000:1a:00.0"));
}

TEST(PcieLink, SlowLinkOfAnHca_IsAFailureOnlyBelowWhatItsPortNeeds) {
  MadePci made;
  current_of(&made, 0x1b) = {16, 16};  // 252 Gb/s
  EXPECT_EQ(verdict_of(pcie_link(), made.host), Verdict::kFailure);
  made.machine().hcas[0].ports[0].speed_mbps = 200000;
  const Observations seen = pcie_link().run(made.host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kWarning);
  EXPECT_THAT(seen[0].evidence, HasSubstr("it carries 252 Gb/s, the HCA's ports 200 Gb/s"));
}

TEST(PcieLink, SlowLinkOfAnHcaWithoutAnActivePort_IsAWarning) {
  MadePci made;
  current_of(&made, 0x1b) = {32, 8};
  EXPECT_EQ(verdict_of(pcie_link(), made.host), Verdict::kFailure);
  made.machine().hcas[0].ports[0].state = topology::Port::State::kDown;
  EXPECT_EQ(verdict_of(pcie_link(), made.host), Verdict::kWarning);
}

TEST(PcieLink, CardOfLessThanItsPeers_IsAWarning) {
  topology::Machine machine = one_switch();
  machine.gpus.push_back(topology::make_gpu(topology::bdf_of(0x1c), machine.gpus[0].at));
  machine.gpus[1].link.width = 8;
  MadePci made(machine);
  current_of(&made, 0x1c).width = 8;
  EXPECT_EQ(verdict_of(pcie_link(), made.host), Verdict::kWarning);
}

TEST(PcieLink, VirtualMachine_HasWarningsAtMost) {
  MadePci made;
  made.make_virtual();
  current_of(&made, 0x1a) = {32, 8};
  EXPECT_EQ(verdict_of(pcie_link(), made.host), Verdict::kWarning);
}

TEST(PcieLink, NothingStated_IsUnknown) {
  MadePci made;
  made.host.pci_states.clear();
  EXPECT_EQ(verdict_of(pcie_link(), made.host), Verdict::kUnknown);
}

TEST(PcieLink, NoDevice_IsOkAndNoTopologyUnknown) {
  MadePci made(topology::flat(0, 0));
  EXPECT_EQ(verdict_of(pcie_link(), made.host), Verdict::kNothing);
  made.host.inspection.reset();
  EXPECT_EQ(verdict_of(pcie_link(), made.host), Verdict::kUnknown);
}

}  // namespace
}  // namespace gdr::tools::doctor
