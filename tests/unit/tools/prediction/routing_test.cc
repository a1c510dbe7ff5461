#include "tools/prediction/routing.h"

#include "tests/unit/tools/prediction/machines.h"

namespace gdr::topology::nccl {
namespace {

using ::testing::HasSubstr;

// GPU0 and mlx5_0 under one switch of socket 0, GPU1 on socket 1, all GPUs on an NVSwitch.
MadeMachine with_a_far_gpu() {
  MadeMachine made;
  const int near = made.add_switch(-1, 0);
  made.add_gpu(near, 0);
  made.add_hca(near, 0);
  made.add_gpu(made.add_switch(-1, 1), 1);
  made.join_by_nvswitch();
  return made;
}

TEST(Routing, HcaOfAnNvLinkedGpu_IsReachedByPxnOverIt) {
  for (const char* release : {"2.20.5", "2.23.4", "2.27.7", "2.29.7", "2.30.7"}) {
    Prediction nccl = predict_all(with_a_far_gpu().machine, of_release(release));
    EXPECT_EQ(nccl.gpu_to_device(1, 0).path, PathClass::kPxn) << release;
    EXPECT_EQ(nccl.gpu_to_device(1, 0).through_gpu, 0);
    EXPECT_EQ(nccl.device_to_gpu(0, 1).path, PathClass::kSys);
    EXPECT_EQ(nccl.local_gpu(0), 0);
    EXPECT_EQ(nccl.gpu_to_gpu(0, 1).path, PathClass::kNvl);
    EXPECT_EQ(nccl.failure(), "");
  }
}

TEST(Routing, PxnDisabled_LeavesTheFarPath) {
  Settings settings;
  settings.pxn_disable = true;
  Prediction nccl = predict_all(with_a_far_gpu().machine, settings);
  EXPECT_EQ(nccl.gpu_to_device(1, 0).path, PathClass::kSys);
  EXPECT_FALSE(nccl.verdict(1, 0, Direction::kSend).direct);
}

TEST(Routing, IntermediateGpuThatCannotSendDirectly_IsNotUsedFromRelease2303) {
  Settings settings = of_release("2.29.7");
  settings.gdr_read = 0;
  const Machine machine = with_a_far_gpu().machine;
  EXPECT_EQ(predict_all(machine, settings).gpu_to_device(1, 0).path, PathClass::kPxn);
  settings.release = Release{2, 30, 3};
  EXPECT_EQ(predict_all(machine, settings).gpu_to_device(1, 0).path, PathClass::kSys);
}

TEST(Routing, NeighbourThatTheHcaDoesNotBelongTo_IsNoIntermediateGpu) {
  const Machine machine = committed("cases/dgx1v.xml");
  Prediction nccl = predict_all(machine, Settings{});
  const size_t hca = device_named(machine, "mlx5_0");
  EXPECT_EQ(nccl.local_gpu(hca), 0);
  EXPECT_EQ(nccl.gpu_to_gpu(5, 1).path, PathClass::kNvl);
  EXPECT_EQ(nccl.gpu_to_device(5, hca).path, PathClass::kSys);
  EXPECT_EQ(nccl.gpu_to_device(1, hca).path, PathClass::kPix);
}

TEST(Routing, P2c_IsForAllHcasOfTheCpuUntil228AndForTheFastestFrom229) {
  const Machine machine = committed("cases/gb200slow.xml");
  const size_t own = device_named(machine, "mlx5_0"), slow = device_named(machine, "mlx5_bf0");
  Prediction older = predict_all(machine, of_release("2.28.9"));
  EXPECT_EQ(older.device_to_gpu(own, 0).path, PathClass::kP2c);
  EXPECT_EQ(older.device_to_gpu(slow, 0).path, PathClass::kP2c);
  EXPECT_TRUE(older.verdict(0, slow, Direction::kReceive).direct);
  Prediction newer = predict_all(machine, of_release("2.29.7"));
  EXPECT_EQ(newer.device_to_gpu(own, 0).path, PathClass::kP2c);
  EXPECT_EQ(newer.device_to_gpu(slow, 0).path, PathClass::kPhb);
  EXPECT_FALSE(newer.verdict(0, slow, Direction::kReceive).direct);
  EXPECT_EQ(predict_all(machine, of_release("2.26.6")).device_to_gpu(own, 0).path, PathClass::kPhb);
}

TEST(Routing, HcaBesideAnotherGpuOfTheTray_IsPxn) {
  const Machine machine = committed("cases/gb300.xml");
  const size_t other = device_named(machine, "mlx5_1"), slow = device_named(machine, "mlx5_bf0");
  Prediction nccl = predict_all(machine, Settings{});
  EXPECT_EQ(nccl.gpu_to_device(0, other).path, PathClass::kPxn);
  EXPECT_EQ(nccl.gpu_to_device(0, other).through_gpu, 1);
  EXPECT_EQ(nccl.device_to_gpu(other, 0).path, PathClass::kPhb);
  EXPECT_EQ(nccl.device_to_gpu(slow, 0).path, PathClass::kPhb);
}

// The intermediate GPU has C2C, which 2.27 uses only where NCCL_PXN_C2C asks for it.
TEST(Routing, PxnC2c_DecidesOverAGpuWithC2c) {
  const Machine machine = committed("cases/gb200slow.xml");
  const size_t other = device_named(machine, "mlx5_2");
  Settings settings;
  EXPECT_EQ(predict_all(machine, settings).gpu_to_device(0, other).path, PathClass::kPxn);
  settings.pxn_c2c = false;
  EXPECT_NE(predict_all(machine, settings).gpu_to_device(0, other).path, PathClass::kPxn);
  settings = of_release("2.27.7");
  EXPECT_NE(predict_all(machine, settings).gpu_to_device(0, other).path, PathClass::kPxn);
  settings.pxn_c2c = true;
  EXPECT_EQ(predict_all(machine, settings).gpu_to_device(0, other).path, PathClass::kPxn);
}

TEST(Routing, SwitchesCabledToEachOther_ArePxbFrom222) {
  const Machine machine = committed("cases/pcilink.xml");
  EXPECT_EQ(predict_all(machine, Settings{}).device_to_gpu(0, 0).path, PathClass::kPxb);
  EXPECT_EQ(predict_all(machine, of_release("2.22.3")).device_to_gpu(0, 0).path, PathClass::kPxb);
  EXPECT_EQ(predict_all(machine, of_release("2.21.5")).device_to_gpu(0, 0).path, PathClass::kPhb);
}

// The path over C2C is faster than that over a slow switch, which is nearer.
TEST(Routing, SlowSwitchBesideC2c_IsPreferredFrom2307) {
  MadeMachine made;
  made.machine.cpu = Cpu{"arm64", "", 0, 0};
  const int outer = made.add_switch(-1, 0), inner = made.add_switch(outer, 0);
  made.machine.switches[inner].link = PciLink{8, 16};
  Gpu& gpu = made.add_gpu(inner, 0);
  gpu.c2c_links = 10;
  gpu.c2c_mb_per_s = 44712;
  made.add_hca(outer, 0, 400);
  EXPECT_EQ(predict_all(made.machine, Settings{}).gpu_to_device(0, 0).path, PathClass::kPxb);
  EXPECT_EQ(predict_all(made.machine, of_release("2.30.4")).gpu_to_device(0, 0).path,
            PathClass::kP2c);
}

TEST(Routing, GpusBeyondTheP2pLevel_GoOverTheCpu) {
  MadeMachine made;
  const int one = made.add_switch(-1, 0);
  for (int i = 0; i < 3; ++i) made.add_gpu(one, 0);
  Settings settings;
  EXPECT_EQ(predict_all(made.machine, settings).gpu_to_gpu(0, 1).path, PathClass::kPix);
  settings.p2p_level = PathClass::kLoc;
  EXPECT_EQ(predict_all(made.machine, settings).gpu_to_gpu(0, 1).path, PathClass::kPhb);
  EXPECT_EQ(predict_all(made.machine, settings).gpu_to_gpu(0, 0).path, PathClass::kLoc);
}

TEST(Routing, PairBeyondTheLevel_IsDivertedOverTheCpuAndStillNamedByItsDistance) {
  MadeMachine made;
  const int one = made.add_switch(-1, 0);
  made.add_gpu(one, 0);
  made.add_hca(one, 0);
  Settings settings;
  settings.gdr_level = PathClass::kLoc;
  Prediction nccl = predict_all(made.machine, settings);
  EXPECT_EQ(nccl.device_to_gpu(0, 0).path, PathClass::kPhb);
  const Verdict verdict = nccl.verdict(0, 0, Direction::kReceive);
  EXPECT_TRUE(verdict.too_far);
  EXPECT_EQ(verdict.distance, PathClass::kPix);
  EXPECT_THAT(verdict.reason, HasSubstr("PIX is beyond NCCL_NET_GDR_LEVEL=LOC"));
}

TEST(Routing, NvLinkOfOneDirection_MakesNcclFail) {
  MadeMachine made;
  made.add_gpu(-1, 0);
  made.add_gpu(-1, 1);
  made.machine.gpus[0].nvlinks = {NvLink{NvLink::To::kGpu, made.machine.gpus[1].bdf, 4}};
  EXPECT_THAT(predict_all(made.machine, Settings{}).failure(), HasSubstr("reverse path"));
}

// With C2C taken for NVLink, the path between two GPUs leads over their CPU.
TEST(Routing, IntermediateGpuBehindACpu_MakesNccl225Fail) {
  MadeMachine made;
  made.machine.cpu = Cpu{"arm64", "", 0, 0};
  for (int numa : {0, 0}) made.add_gpu(-1, numa).c2c_links = 10;
  made.machine.gpus[0].at.parent = made.add_switch(-1, 0);
  made.machine.gpus[0].c2c_mb_per_s = made.machine.gpus[1].c2c_mb_per_s = 44712;
  made.add_hca(0, 0, 400);
  EXPECT_THAT(predict_all(made.machine, of_release("2.25.1")).failure(),
              ::testing::Not(::testing::IsEmpty()));
  EXPECT_EQ(predict_all(made.machine, of_release("2.26.6")).failure(), "");
}

TEST(Routing, OddMachines_AreSurvived) {
  EXPECT_EQ(predict_all(Machine{}, Settings{}).failure(), "");
  Machine unattached;
  unattached.gpus.resize(2);
  unattached.hcas.resize(1);
  unattached.hcas[0].ports.resize(1);
  for (const char* release : {"2.20.5", "2.25.1", "2.28.9", "2.30.4", "2.30.7"}) {
    Prediction nccl = predict_all(unattached, of_release(release));
    EXPECT_EQ(nccl.gpu_to_device(0, 0).path, PathClass::kPhb) << release;
    Prediction no_device(unattached, {}, of_release(release));
    EXPECT_TRUE(no_device.devices_of_gpu(0).empty());
  }
  unattached.gpus.clear();
  EXPECT_EQ(predict_all(unattached, Settings{}).local_gpu(0), -1);
}

}  // namespace
}  // namespace gdr::topology::nccl
