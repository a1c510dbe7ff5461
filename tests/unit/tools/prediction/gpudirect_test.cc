#include "tools/prediction/gpudirect.h"

#include "tests/unit/tools/prediction/machines.h"

namespace gdr::topology::nccl {
namespace {

using ::testing::HasSubstr;

// One GPU with C2C, and an HCA on its CPU.
Machine grace() {
  MadeMachine made;
  made.machine.cpu = Cpu{"arm64", "", 0, 0};
  Gpu& gpu = made.add_gpu(-1, 0);
  gpu.c2c_links = 10;
  gpu.c2c_mb_per_s = 44712;
  made.add_hca(-1, 0, 400);
  return made.machine;
}

Verdict verdict(const Machine& machine, const Settings& settings) {
  return predict_all(machine, settings).verdict(0, 0, Direction::kReceive);
}

TEST(GpuDirect, OverC2c_DependsOnTheRelease) {
  EXPECT_FALSE(verdict(grace(), of_release("2.25.1")).direct);
  EXPECT_THAT(verdict(grace(), of_release("2.25.1")).reason,
              HasSubstr("NCCL 2.25.1 has no GPUDirect over NVLink-C2C"));
  EXPECT_THAT(verdict(grace(), of_release("2.26.6")).reason,
              HasSubstr("only with NCCL_NET_GDR_C2C=1"));
  for (const char* release : {"2.27.3", "2.27.7", "2.28.9", "2.29.7", "2.30.7"}) {
    EXPECT_TRUE(verdict(grace(), of_release(release)).direct) << release;
    EXPECT_FALSE(verdict(grace(), of_release(release)).over_pcie) << release;
  }
}

TEST(GpuDirect, C2cSetting_IsTakenFrom226) {
  Settings settings = of_release("2.26.6");
  settings.gdr_c2c = true;
  EXPECT_TRUE(verdict(grace(), settings).direct);
  EXPECT_THAT(verdict(grace(), settings).reason, HasSubstr("PHB, which NCCL 2.26.6 counts as C2C"));
  settings.release = Release{2, 25, 1};
  EXPECT_FALSE(verdict(grace(), settings).direct);
  settings.release = kNewestRelease;
  settings.gdr_c2c = false;
  EXPECT_THAT(verdict(grace(), settings).reason,
              HasSubstr("NCCL_NET_GDR_C2C=0 excludes NVLink-C2C"));
}

// The sentences that explain a "no" or a "yes" of a GPU with C2C, whole.
TEST(GpuDirect, ReasonOfAGpuWithC2c_SaysWhatTheReleaseDoes) {
  EXPECT_EQ(verdict(grace(), of_release("2.25.1")).reason,
            "PHB is beyond PXB, the level where NCCL_NET_GDR_LEVEL is unset; NCCL 2.25.1 has no "
            "GPUDirect over NVLink-C2C");
  EXPECT_EQ(verdict(grace(), of_release("2.26.6")).reason,
            "PHB is beyond PXB, the level where NCCL_NET_GDR_LEVEL is unset; NCCL 2.26.6 uses "
            "GPUDirect over NVLink-C2C only with NCCL_NET_GDR_C2C=1");
  EXPECT_EQ(verdict(grace(), of_release("2.28.9")).reason,
            "P2C, which NCCL 2.28.9 counts as C2C over NVLink-C2C, is within PXB, the level where "
            "NCCL_NET_GDR_LEVEL is unset");
  EXPECT_EQ(verdict(grace(), Settings{}).reason,
            "P2C is within P2C, the level where NCCL_NET_GDR_LEVEL is unset");
  Settings settings;
  settings.gdr_c2c = false;
  EXPECT_EQ(verdict(grace(), settings).reason,
            "P2C is beyond PXB, the level where NCCL_NET_GDR_LEVEL is unset; NCCL_NET_GDR_C2C=0 "
            "excludes NVLink-C2C");
}

// From 2.29 on the slower HCAs of a CPU are PHB, which is beyond P2C.
TEST(GpuDirect, ReasonOfASlowHcaBesideC2c_NamesTheFastestHcas) {
  MadeMachine made;
  made.machine.cpu = Cpu{"arm64", "", 0, 0};
  made.add_gpu(-1, 0);
  made.machine.gpus[0].c2c_links = 14;
  made.machine.gpus[0].c2c_mb_per_s = 40000;
  made.add_hca(-1, 0, 200);
  made.add_hca(-1, 0, 100);
  const Prediction nccl = predict_all(made.machine, Settings{});
  EXPECT_EQ(nccl.verdict(0, 1, Direction::kReceive).reason,
            "PHB is beyond P2C, the level where NCCL_NET_GDR_LEVEL is unset; NCCL 2.30.7 goes "
            "over NVLink-C2C only to the GPU's fastest HCAs");
}

TEST(GpuDirect, LevelBelowP2c_AllowsC2cUntil228) {
  Settings settings = of_release("2.28.9");
  settings.gdr_level = PathClass::kPix;
  EXPECT_TRUE(verdict(grace(), settings).direct);
  settings.release = Release{2, 29, 7};
  EXPECT_FALSE(verdict(grace(), settings).direct);
  EXPECT_EQ(verdict(grace(), settings).distance, PathClass::kP2c);
}

TEST(GpuDirect, LevelThatTheReleaseDoesNotKnow_IsIgnored) {
  Settings settings = of_release("2.25.1");
  settings.gdr_level = PathClass::kP2c;
  EXPECT_THAT(verdict(grace(), settings).reason,
              HasSubstr("P2C is not a path class of NCCL 2.25.1"));
  settings.gdr_level = PathClass::kPhb;
  EXPECT_TRUE(verdict(grace(), settings).direct);
}

TEST(GpuDirect, SwitchBesideC2c_IsOverPcie) {
  Machine machine = committed("cases/gb300.xml");
  const size_t own = device_named(machine, "mlx5_0");
  for (const char* release : {"2.26.6", "2.28.9", "2.30.7"}) {
    const Verdict one =
        predict_all(machine, of_release(release)).verdict(0, own, Direction::kReceive);
    EXPECT_TRUE(one.direct && one.over_pcie) << release;
  }
  EXPECT_FALSE(
      predict_all(machine, of_release("2.25.1")).verdict(0, own, Direction::kReceive).over_pcie);
}

TEST(GpuDirect, TopologyFileThatExcludesIt_IsBelieved) {
  const Machine machine = committed("cases/gb10b.xml");
  const Verdict one = predict_all(machine, Settings{}).verdict(0, 0, Direction::kReceive);
  EXPECT_FALSE(one.direct);
  EXPECT_FALSE(one.too_far);
  EXPECT_THAT(one.reason, HasSubstr("gdr=\"0\""));
}

TEST(GpuDirect, PartitionOfAGpu_NeedsItsOwnSetting) {
  const Machine machine = committed("cases/mlopart.xml");
  ASSERT_EQ(machine.gpus.size(), 2u);
  Settings settings;
  EXPECT_THAT(verdict(machine, settings).reason, HasSubstr("NCCL_NET_GDR_MLOPART=1"));
  settings.gdr_mlopart = true;
  EXPECT_TRUE(verdict(machine, settings).direct);
  EXPECT_THAT(predict_all(machine, of_release("2.29.7")).failure(), HasSubstr("sees only one"));
}

TEST(GpuDirect, PxnPair_HasTheDistanceOfTheIntermediateGpu) {
  MadeMachine made;
  made.add_gpu(-1, 1);
  const int near = made.add_switch(-1, 0);
  made.add_gpu(near, 0);
  made.add_hca(near, 0);
  made.join_by_nvswitch();
  Settings settings = of_release("2.29.7");
  settings.gdr_level = PathClass::kC2c;
  const Verdict one = predict_all(made.machine, settings).verdict(0, 0, Direction::kSend);
  EXPECT_TRUE(one.too_far);
  EXPECT_EQ(one.distance, PathClass::kPix);
  settings.gdr_level = one.distance;
  EXPECT_TRUE(predict_all(made.machine, settings).verdict(0, 0, Direction::kSend).direct);
}

}  // namespace
}  // namespace gdr::topology::nccl
