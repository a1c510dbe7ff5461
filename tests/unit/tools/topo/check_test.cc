#include "tools/topo/check.h"

#include <gmock/gmock.h>

#include "tests/unit/tools/topo/checked_machine.h"

namespace gdr::tools::topo {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using topology::scene_of;

TEST(Check, GoodMachine_HasNoFault) {
  EXPECT_THAT(faults_of(report_on(good_machine())), IsEmpty());
  EXPECT_THAT(faults_with_state([](const Machine&, PciStates*) {}), IsEmpty());
}

std::vector<std::string> consequences_of(const Machine& machine) {
  std::vector<std::string> texts;
  for (const Finding& fault : report_on(machine).faults) {
    if (is_consequence(fault)) {
      texts.push_back(std::string(id_of(fault.kind)) + ": " + to_string(fault));
    }
  }
  return texts;
}

TEST(Check, HcaThatNcclUsesInPlaceOfTheRail_IsNamedWithTheReason) {
  EXPECT_THAT(consequences_of(good_machine()), IsEmpty());
  Machine slow = good_machine();
  slow.hcas[1].ports[0].speed_mbps = 200000;
  EXPECT_THAT(consequences_of(slow),
              ElementsAre(AllOf(HasSubstr("nccl-choice: GPU2: NCCL uses mlx5_"),
                                HasSubstr("where the rail is mlx5_1:1, as NCCL prefers bandwidth")),
                          HasSubstr("nccl-choice: GPU3: ")));
}

TEST(Check, MachineOnWhichNcclFails_IsNamed) {
  Machine machine = good_machine();
  machine.gpus[4].nvlinks = {NvLink{NvLink::To::kGpu, machine.gpus[7].bdf, 2}};
  EXPECT_THAT(consequences_of(machine),
              Contains(HasSubstr("nccl-fails: NCCL 2.30.7 fails on this machine: ")));
}

TEST(Check, EmptyMachine_LacksBothKindsOfDevices) {
  EXPECT_THAT(faults_of(report_on(Machine{})),
              ElementsAre(HasSubstr("no-gpu: the machine shows no GPU"),
                          HasSubstr("no-hca: the machine shows no HCA")));
}

TEST(Check, FindingsOfTheDecision_AreFaultsOrNotes) {
  Inspection inspection{scene_of(good_machine()), {}, "/sys"};
  inspection.decision.findings = {
      {FindingKind::kGdrLevel, Severity::kInfo, "", "an info", ""},
      {FindingKind::kBadValue, Severity::kWarning, "NCCL_IB_X", "is wrong", ""},
      {FindingKind::kAcs, Severity::kWarning, "GPU0 and mlx5_0", "ACS redirects", ""}};
  const CheckReport report = check_machine(inspection, {});
  EXPECT_THAT(faults_of(report),
              ElementsAre("bad-value: NCCL_IB_X: is wrong", "acs: GPU0 and mlx5_0: ACS redirects"));
  EXPECT_THAT(report.notes, Contains("an info"));
}

TEST(Check, SlowLinkThatTheDecisionWarnsOf_IsOneFault) {
  Inspection inspection{scene_of(good_machine()), {}, "/sys"};
  inspection.decision.findings = {{FindingKind::kSlowLink, Severity::kWarning, "mlx5_1:1",
                                   "the link runs at 100 Gb/s, where rails on others", ""}};
  EXPECT_THAT(faults_of(check_machine(inspection, {})), IsEmpty());
}

// The HCAs are of two models, so that neither is called slow.
TEST(CheckMachine, ChoiceThatNoSettingChanges_NamesWhatToLookAt) {
  Machine machine = good_machine();
  machine.hcas[2].ids.device += 1;
  machine.hcas[2].ports[0].speed_mbps = 200000;
  const CheckReport report = report_on(machine);
  ASSERT_FALSE(report.faults.empty());
  EXPECT_EQ(report.faults[0].kind, FindingKind::kNcclChoice);
  EXPECT_THAT(report.faults[0].fix, AllOf(HasSubstr("look at the slot and the port of mlx5_2:1"),
                                          HasSubstr("move its card")));
}

}  // namespace
}  // namespace gdr::tools::topo
