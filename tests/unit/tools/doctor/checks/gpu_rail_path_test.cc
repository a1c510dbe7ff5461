#include <gmock/gmock.h>

#include "tests/unit/tools/doctor/checks/inspected_machine.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(GpuRailPath, RailsBelowTheSameSwitch_AreOkWithTheirPath) {
  InspectedHost made;
  const Observations seen = gpu_rail_path().run(made.host);
  EXPECT_EQ(verdict_of(gpu_rail_path(), made.host), Verdict::kOk);
  ASSERT_FALSE(seen.empty());
  EXPECT_THAT(seen[0].subject, HasSubstr("GPU0 (0000:13:00.0)"));
  EXPECT_THAT(seen[0].evidence, HasSubstr("its rail is mlx5_0:1 at PIX; GPUDirect RDMA: yes"));
}

TEST(GpuRailPath, NearRailOfAnHcaWithoutGpuDirect_IsOkAndNotCalledDirect) {
  InspectedHost made([](topology::Machine* machine) {
    for (topology::Hca& hca : machine->hcas) hca.gpudirect = false;
  });
  EXPECT_EQ(verdict_of(gpu_rail_path(), made.host), Verdict::kOk);
  EXPECT_THAT(gpu_rail_path().run(made.host)[0].evidence, HasSubstr("for another reason"));
}

TEST(GpuRailPath, DirectionsThatDiffer_AreBothNamed) {
  topology::nccl::Settings settings;
  settings.gdr_read = 0;
  InspectedHost made({}, settings);
  EXPECT_EQ(verdict_of(gpu_rail_path(), made.host), Verdict::kOk);
  EXPECT_THAT(gpu_rail_path().run(made.host)[0].evidence, HasSubstr("for sending: no"));
}

TEST(GpuRailPath, LevelThatForbidsANearRail_IsAFailure) {
  topology::nccl::Settings settings;
  settings.gdr_level = topology::PathClass::kLoc;
  InspectedHost made({}, settings);
  made.host.inspection->settings["NCCL_NET_GDR_LEVEL"] = {};
  const Observations seen = gpu_rail_path().run(made.host);
  EXPECT_EQ(verdict_of(gpu_rail_path(), made.host), Verdict::kFailure);
  EXPECT_THAT(seen[0].evidence, HasSubstr("no GPUDirect RDMA with the own rail"));
  EXPECT_FALSE(seen[0].fix.empty());
}

TEST(GpuRailPath, RailThatIsFarAway_IsAWarning) {
  InspectedHost made([](topology::Machine* machine) {
    *machine = topology::flat(1, 1);
    machine->hcas[0].gpudirect = true;
  });
  const Observations seen = gpu_rail_path().run(made.host);
  EXPECT_EQ(verdict_of(gpu_rail_path(), made.host), Verdict::kWarning);
  EXPECT_THAT(seen[0].fix, HasSubstr("NCCL_NET_GDR_LEVEL"));
  EXPECT_THAT(seen[0].evidence, HasSubstr("(rail mlx5_0:1)"));
}

TEST(GpuRailPath, NearerRailThatIsDown_IsNamedAndNoLevelAdvised) {
  InspectedHost made([](topology::Machine* machine) {
    for (topology::Gpu& gpu : machine->gpus) gpu.nvlinks.clear();  // else NCCL uses PXN
    machine->hcas[1].ports[0].state = topology::Port::State::kDown;
  });
  const Observations seen = gpu_rail_path().run(made.host);
  EXPECT_EQ(seen[0].verdict, Verdict::kWarning);
  EXPECT_THAT(seen[0].subject, HasSubstr("GPU2 (0000:"));
  EXPECT_THAT(seen[0].evidence,
              HasSubstr("its nearest port mlx5_1:1 is DOWN, so that it shares mlx5_"));
  for (const Observation& one : seen) EXPECT_THAT(one.fix, Not(HasSubstr("LEVEL")));
}

TEST(GpuRailPath, GpuWithoutARail_IsUnknownHere) {
  InspectedHost made([](topology::Machine* machine) {
    for (topology::Hca& hca : machine->hcas) {
      for (topology::Port& port : hca.ports) port.state = topology::Port::State::kDown;
    }
  });
  EXPECT_EQ(verdict_of(gpu_rail_path(), made.host), Verdict::kUnknown);
}

TEST(GpuRailPath, WithoutGpuOrHca_IsOkAndWithoutATopologyUnknown) {
  InspectedHost no_gpu([](topology::Machine* machine) { machine->gpus.clear(); });
  InspectedHost no_hca([](topology::Machine* machine) { machine->hcas.clear(); });
  EXPECT_EQ(verdict_of(gpu_rail_path(), no_gpu.host), Verdict::kNothing);
  EXPECT_EQ(verdict_of(gpu_rail_path(), no_hca.host), Verdict::kNothing);
  EXPECT_EQ(verdict_of(gpu_rail_path(), MadeHost().host), Verdict::kUnknown);
}

}  // namespace
}  // namespace gdr::tools::doctor
