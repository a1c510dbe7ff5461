#include <gmock/gmock.h>

#include "tests/unit/tools/doctor/made_pci.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;

constexpr unsigned kOrderingRelaxed = 0x5910;
constexpr unsigned kOrderingStrict = 0x5900;

topology::Machine with_amd() {
  topology::Machine machine = one_switch();
  machine.cpu.vendor = "AuthenticAMD";
  return machine;
}

TEST(RelaxedOrdering, EnabledAndAskedFor_IsOk) {
  MadePci made(with_amd());
  made.config(kMadeHca, config_with_control(kOrderingRelaxed));
  EXPECT_EQ(verdict_of(relaxed_ordering(), made.host), Verdict::kOk);
}

TEST(RelaxedOrdering, DisabledOnAmdOrArm_IsAWarningWithAStepAndItsUndo) {
  MadePci made(with_amd());
  made.config(kMadeHca, config_with_control(kOrderingStrict));
  const Observations seen = relaxed_ordering().run(made.host);
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].verdict, Verdict::kWarning);
  EXPECT_THAT(seen[0].evidence, HasSubstr("Device Control is 0x5900"));
  ASSERT_EQ(seen[0].steps.size(), 1u);
  EXPECT_EQ(seen[0].steps[0].command, "setpci -s 0000:1b:00.0 CAP_EXP+8.w=0010:0010");
  EXPECT_EQ(seen[0].steps[0].undo, "setpci -s 0000:1b:00.0 CAP_EXP+8.w=5900:0010");
  made.machine().cpu = {"arm64", "", 0, 0};
  EXPECT_EQ(verdict_of(relaxed_ordering(), made.host), Verdict::kWarning);
}

// Linux clears the bit below Intel's root ports with an erratum.
TEST(RelaxedOrdering, DisabledOnIntel_IsOkWithoutAStep) {
  MadePci made;
  made.config(kMadeHca, config_with_control(kOrderingStrict));
  const Observations seen = relaxed_ordering().run(made.host);
  EXPECT_EQ(seen.at(0).verdict, Verdict::kOk);
  EXPECT_TRUE(seen.at(0).steps.empty());
}

TEST(RelaxedOrdering, VirtualFunction_IsOkAndInAVirtualMachineUnknown) {
  MadePci made(with_amd());
  made.config(kMadeHca, config_with_control(kOrderingStrict));
  made.make_virtual();
  EXPECT_EQ(verdict_of(relaxed_ordering(), made.host), Verdict::kUnknown);
  made.machine().hcas[0].physical_function = topology::bdf_of(0x1b, 0, 1);
  EXPECT_EQ(verdict_of(relaxed_ordering(), made.host), Verdict::kOk);
}

TEST(RelaxedOrdering, VariableThatDisablesIt_IsAWarningOnAmdOnly) {
  MadePci made(with_amd());
  made.host.environment["NCCL_IB_PCI_RELAXED_ORDERING"] = "0";
  made.host.conf_places["NCCL_IB_PCI_RELAXED_ORDERING"] = {"/etc/nccl.conf", 3};
  const Observations seen = relaxed_ordering().run(made.host);
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[1].verdict, Verdict::kWarning);
  EXPECT_THAT(seen[1].evidence, HasSubstr("=0 in line 3 of /etc/nccl.conf"));
  made.machine().cpu.vendor = "GenuineIntel";
  EXPECT_EQ(verdict_of(relaxed_ordering(), made.host), Verdict::kOk);
}

TEST(RelaxedOrdering, WithoutRoot_IsUnknown) {
  MadePci made;
  made.config(kMadeHca, std::string(64, '\0'));
  EXPECT_EQ(verdict_of(relaxed_ordering(), made.host), Verdict::kUnknown);
}

TEST(RelaxedOrdering, NoHca_IsOkAndNoTopologyUnknown) {
  MadePci made(topology::flat(1, 0));
  EXPECT_EQ(verdict_of(relaxed_ordering(), made.host), Verdict::kNothing);
  made.host.inspection.reset();
  EXPECT_EQ(verdict_of(relaxed_ordering(), made.host), Verdict::kUnknown);
}

}  // namespace
}  // namespace gdr::tools::doctor
