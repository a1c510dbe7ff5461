#include "tools/prediction/prediction.h"

#include <gmock/gmock.h>

#include "topology/builder.h"

namespace gdr::topology::nccl {
namespace {

using ::testing::HasSubstr;

// GPU0 and mlx5_0 on one NUMA node without a switch; mlx5_1 on the other.
class PredictionVerdicts : public ::testing::Test {
 protected:
  PredictionVerdicts() {
    add_gpu("01:00.0", 0);
    add_hca("mlx5_0", "02:00.0", 0);
    add_hca("mlx5_1", "82:00.0", 1);
  }
  void add_gpu(const char* bdf, int numa) {
    Gpu gpu;
    gpu.bdf = *Bdf::parse(bdf);
    gpu.at.numa = numa_index(&machine_, numa);
    machine_.gpus.push_back(gpu);
  }
  void add_hca(const char* name, const char* bdf, int numa) {
    Hca hca;
    hca.name = name;
    hca.bdf = Bdf::parse(bdf);
    hca.at.numa = numa_index(&machine_, numa);
    hca.ports.push_back(Port{});
    machine_.hcas.push_back(hca);
  }
  // The verdict on GPU0, in NCCL's default release.
  Verdict verdict(std::optional<PathClass> level, size_t device,
                  Direction direction = Direction::kReceive, int read = -2) {
    Settings settings;
    settings.gdr_level = level;
    settings.gdr_read = read;
    return Prediction(machine_, {{0, 0}, {1, 0}}, settings).verdict(0, device, direction);
  }

  Machine machine_;
};

TEST_F(PredictionVerdicts, PathBeyondTheLevel_IsNotDirectAndTheReasonNamesBoth) {
  Verdict one = verdict(std::nullopt, 0);
  EXPECT_FALSE(one.direct);
  EXPECT_THAT(one.reason, HasSubstr("PHB is beyond P2C"));
  EXPECT_THAT(one.reason, HasSubstr("unset"));
  EXPECT_THAT(verdict(PathClass::kPix, 1).reason,
              HasSubstr("SYS is beyond NCCL_NET_GDR_LEVEL=PIX"));
}

TEST_F(PredictionVerdicts, PathWithinTheLevel_IsDirect) {
  EXPECT_TRUE(verdict(PathClass::kPhb, 0).direct);
  EXPECT_FALSE(verdict(PathClass::kPhb, 1).direct);
  EXPECT_TRUE(verdict(PathClass::kSys, 1).direct);
}

TEST_F(PredictionVerdicts, ReadSwitchedOff_LeavesReceivesDirect) {
  EXPECT_TRUE(verdict(PathClass::kSys, 0, Direction::kReceive, 0).direct);
  EXPECT_FALSE(verdict(PathClass::kSys, 0, Direction::kSend, 0).direct);
}

TEST_F(PredictionVerdicts, OldGpuAmongSeveral_SendsOnlyWithNvLinkOrReadSwitchedOn) {
  add_gpu("03:00.0", 0);
  machine_.gpus[0].compute_capability = 70;
  EXPECT_FALSE(verdict(PathClass::kSys, 0, Direction::kSend).direct);
  EXPECT_TRUE(verdict(PathClass::kSys, 0, Direction::kReceive).direct);
  EXPECT_TRUE(verdict(PathClass::kSys, 0, Direction::kSend, 1).direct);
  machine_.gpus[0].nvlinks = {NvLink{NvLink::To::kGpu, machine_.gpus[1].bdf, 1}};
  machine_.gpus[1].nvlinks = {NvLink{NvLink::To::kGpu, machine_.gpus[0].bdf, 1}};
  EXPECT_TRUE(verdict(PathClass::kSys, 0, Direction::kSend).direct);
}

TEST_F(PredictionVerdicts, OldGpuAlone_SendsDirectly) {
  machine_.gpus[0].compute_capability = 70;
  EXPECT_TRUE(verdict(PathClass::kSys, 0, Direction::kSend).direct);
}

TEST_F(PredictionVerdicts, DevicesWithoutSupport_AreTheReasonBeforeDistance) {
  machine_.hcas[0].gpudirect = false;
  EXPECT_THAT(verdict(PathClass::kSys, 0).reason, HasSubstr("mlx5_0 registers no GPU memory"));
  EXPECT_TRUE(verdict(PathClass::kSys, 1).direct);
  machine_.gpus[0].gpudirect = false;
  EXPECT_FALSE(verdict(PathClass::kSys, 1).direct);
}

TEST_F(PredictionVerdicts, Pxn_IsJudgedByThePathOfTheOtherGpu) {
  add_gpu("83:00.0", 1);
  for (Gpu& gpu : machine_.gpus) gpu.nvlinks = {NvLink{}};
  machine_.switches.push_back(Switch{*Bdf::parse("81:00.0"), {-1, 1, -1}, 0x060400, {}, {}});
  machine_.gpus[1].at.parent = machine_.hcas[1].at.parent = 0;
  Verdict one = verdict(std::nullopt, 1);
  EXPECT_TRUE(one.direct);
  EXPECT_THAT(one.reason, HasSubstr("PXN through GPU1, from there PIX"));
}

}  // namespace
}  // namespace gdr::topology::nccl
