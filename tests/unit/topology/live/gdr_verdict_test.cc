#include "topology/live/gdr_verdict.h"

#include <gtest/gtest.h>

#include "tests/unit/topology/machines.h"

namespace gdr::topology {
namespace {

struct Case {
  std::string name;
  std::optional<PathClass> level;
  size_t hca;
  bool direct, too_far;
  PathClass distance;
  std::string reason;
  void (*change)(Machine*) = [](Machine*) {};
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class GdrVerdictTest : public testing::TestWithParam<Case> {};

// Of GPU0, to which mlx5_0 is PIX, mlx5_1 PHB and mlx5_3 SYS.
TEST_P(GdrVerdictTest, Verdict_HasItsReason) {
  const Case& one = GetParam();
  Machine machine = two_sockets_with_switches();
  one.change(&machine);
  nccl::Settings settings;
  settings.gdr_level = one.level;
  const GdrVerdict verdict = gdr_verdict(scene_of(machine, settings), 0, one.hca);
  EXPECT_EQ(verdict.direct, one.direct);
  EXPECT_EQ(verdict.too_far, one.too_far);
  EXPECT_EQ(verdict.distance, one.distance);
  EXPECT_EQ(verdict.reason, one.reason);
}

void add_c2c(Machine* machine) { machine->gpus[0].c2c_links = 1; }
void forbid_hca(Machine* machine) { machine->hcas[0].gpudirect = false; }
void forbid_gpu(Machine* machine) { machine->gpus[0].gpudirect = false; }
void forbid_by_file(Machine* machine) {
  machine->gpus[0].gpudirect = false;
  machine->nccl_file = true;
}

INSTANTIATE_TEST_SUITE_P(
    Pairs, GdrVerdictTest,
    testing::Values(
        Case{"near", std::nullopt, 0, true, false, PathClass::kPix,
             "PIX is within P2C, the level where NCCL_NET_GDR_LEVEL is unset"},
        Case{"far", std::nullopt, 1, false, true, PathClass::kPhb,
             "PHB is beyond P2C, the level where NCCL_NET_GDR_LEVEL is unset"},
        Case{"within_the_users_level", PathClass::kPhb, 1, true, false, PathClass::kPhb,
             "PHB is within NCCL_NET_GDR_LEVEL=PHB"},
        Case{"beyond_the_users_level", PathClass::kPhb, 3, false, true, PathClass::kSys,
             "SYS is beyond NCCL_NET_GDR_LEVEL=PHB"},
        Case{"over_c2c", std::nullopt, 1, true, false, PathClass::kP2c,
             "P2C is within P2C, the level where NCCL_NET_GDR_LEVEL is unset", add_c2c},
        Case{"c2c_does_not_cross_sockets", std::nullopt, 3, false, true, PathClass::kSys,
             "SYS is beyond P2C, the level where NCCL_NET_GDR_LEVEL is unset", add_c2c},
        Case{"hca_without", PathClass::kSys, 0, false, false, PathClass::kPix,
             "mlx5_0 registers no GPU memory: neither dma-buf nor peermem", forbid_hca},
        Case{"gpu_without", PathClass::kSys, 0, false, false, PathClass::kPix,
             "the driver offers no GPUDirect RDMA on this GPU", forbid_gpu},
        Case{
            "gpu_without_by_file", PathClass::kSys, 0, false, false, PathClass::kPix,
            "the driver offers no GPUDirect RDMA on this GPU, or gdr=\"0\" in NCCL's topology file",
            forbid_by_file}),
    [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace gdr::topology
