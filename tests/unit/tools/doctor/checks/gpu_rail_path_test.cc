#include "tests/unit/tools/doctor/checks/inspected_machine.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

using topology::Machine;

using ::testing::HasSubstr;
using ::testing::Not;

void set_settings(InspectedHost* made, const topology::nccl::Settings& settings) {
  made->set([](Machine*) {}, settings);
}

TEST(GpuRailPath, EachCase_HasItsVerdict) {
  topology::nccl::Settings no_reads, too_low;
  no_reads.gdr_read = 0;
  too_low.gdr_level = topology::PathClass::kLoc;
  expect_worst<InspectedHost>(
      gpu_rail_path(),
      {{"near", [](InspectedHost*) {}, Verdict::kOk, "GPU0 (0000:13:00.0)",
        "its rail is mlx5_0:1 at PIX; GPUDirect RDMA: yes"},
       {"near an HCA without GPUDirect RDMA",
        [](InspectedHost* made) {
          made->set([](Machine* machine) {
            for (topology::Hca& hca : machine->hcas) hca.gpudirect = false;
          });
        },
        Verdict::kOk, "", "for another reason"},
       {"directions that differ", [&](InspectedHost* made) { set_settings(made, no_reads); },
        Verdict::kOk, "", "for sending: no"},
       {"a level that forbids a near rail",
        [&](InspectedHost* made) {
          set_settings(made, too_low);
          made->host.inspection->settings["NCCL_NET_GDR_LEVEL"] = {};
        },
        Verdict::kFailure, "", "no GPUDirect RDMA with the own rail", "NCCL_NET_GDR_LEVEL"},
       {"far away",
        [](InspectedHost* made) {
          made->set([](Machine* machine) {
            *machine = topology::flat(1, 1);
            machine->hcas[0].gpudirect = true;
          });
        },
        Verdict::kWarning, "", "with the own rail (mlx5_0:1)", "NCCL_NET_GDR_LEVEL"},
       {"no rail",
        [](InspectedHost* made) {
          made->set([](Machine* machine) {
            for (topology::Hca& hca : machine->hcas) {
              for (topology::Port& port : hca.ports) port.state = topology::Port::State::kDown;
            }
          });
        },
        Verdict::kUnknown},
       kNoGpuCase,
       kNoHcaCase,
       kNoTopologyCase});
}

TEST(GpuRailPath, NearerRailThatIsDown_IsNamedAndNoLevelAdvised) {
  InspectedHost made;
  made.set([](Machine* machine) {
    for (topology::Gpu& gpu : machine->gpus) gpu.nvlinks.clear();  // else NCCL uses PXN
    machine->hcas[1].ports[0].state = topology::Port::State::kDown;
  });
  const Observations seen = seen_by(gpu_rail_path(), made.host);
  EXPECT_EQ(seen[0].verdict, Verdict::kWarning);
  EXPECT_THAT(seen[0].subject, HasSubstr("GPU2 (0000:"));
  EXPECT_THAT(seen[0].evidence,
              HasSubstr("its nearest port mlx5_1:1 is DOWN, so that it shares mlx5_"));
  for (const Observation& one : seen) EXPECT_THAT(one.fix, Not(HasSubstr("LEVEL")));
}

}  // namespace
}  // namespace gdr::tools::doctor
