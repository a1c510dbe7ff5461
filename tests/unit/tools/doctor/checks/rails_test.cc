#include <gmock/gmock.h>

#include "tests/unit/tools/doctor/checks/inspected_machine.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;

TEST(Rails, EvenRails_AreOkWithTheRailOfEachGpu) {
  InspectedHost made;
  const Observations seen = rails().run(made.host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kOk);
  EXPECT_THAT(seen[0].evidence, HasSubstr("GPU0 mlx5_0:1, GPU1 mlx5_0:1, GPU2 mlx5_1:1"));
}

TEST(Rails, MissingHca_IsAWarningOfTheGpusThatLoseByIt) {
  InspectedHost made(
      [](topology::Machine* machine) { machine->hcas.erase(machine->hcas.begin()); });
  const Observations seen = rails().run(made.host);
  EXPECT_EQ(verdict_of(rails(), made.host), Verdict::kWarning);
  EXPECT_THAT(seen[0].subject, HasSubstr("GPU0"));
}

TEST(Rails, NoUsablePort_IsAFailure) {
  InspectedHost made([](topology::Machine* machine) {
    for (topology::Hca& hca : machine->hcas) {
      for (topology::Port& port : hca.ports) port.state = topology::Port::State::kDown;
    }
  });
  EXPECT_EQ(verdict_of(rails(), made.host), Verdict::kFailure);
}

TEST(Rails, DiagnosticOfTheTopology_IsAWarningAndThatOfAVariableIsNot) {
  InspectedHost made;
  Findings& findings = made.host.inspection->decision.findings;
  findings.push_back(
      {FindingKind::kBadValue, Severity::kWarning, "NCCL_IB_TC", "odd", "correct it"});
  EXPECT_EQ(verdict_of(rails(), made.host), Verdict::kOk);
  findings.push_back({FindingKind::kTopologyUnknown, Severity::kWarning, "",
                      "the machine's topology is unknown", "x"});
  EXPECT_EQ(verdict_of(rails(), made.host), Verdict::kWarning);
}

TEST(Rails, WithoutGpuOrHca_IsOkAndWithoutATopologyUnknown) {
  InspectedHost no_gpu([](topology::Machine* machine) { machine->gpus.clear(); });
  InspectedHost no_hca([](topology::Machine* machine) { machine->hcas.clear(); });
  EXPECT_EQ(verdict_of(rails(), no_gpu.host), Verdict::kNothing);
  EXPECT_EQ(verdict_of(rails(), no_hca.host), Verdict::kNothing);
  EXPECT_EQ(verdict_of(rails(), MadeHost().host), Verdict::kUnknown);
}

}  // namespace
}  // namespace gdr::tools::doctor
