#include "tools/prediction/local_devices.h"

#include "tests/unit/tools/prediction/machines.h"

namespace gdr::topology::nccl {
namespace {

using ::testing::ElementsAre;

TEST(LocalDevices, Bandwidth_GoesBeforeClass) {
  const Machine machine = committed("cases/slowmany.xml");
  Prediction nccl = predict_all(machine, Settings{});
  const size_t fast = device_named(machine, "mlx5_8");
  EXPECT_THAT(nccl.devices_of_gpu(0), ElementsAre(device_named(machine, "mlx5_0")));
  EXPECT_THAT(nccl.devices_of_gpu(4), ElementsAre(fast));
  EXPECT_EQ(nccl.device_to_gpu(fast, 4).path, PathClass::kPhb);
  EXPECT_FALSE(nccl.verdict(4, fast, Direction::kReceive).direct);
  EXPECT_FLOAT_EQ(static_cast<float>(nccl.gpu_to_device(4, fast).gb_per_s), 24.0F);
}

// All links are PCIe 3.0 x16, 12 GB/s, which hides that one port is twice as fast.
TEST(LocalDevices, DevicesBehindEquallySlowLinks_AreShared) {
  Prediction nccl = predict_all(committed("cases/flatslow.xml"), Settings{});
  EXPECT_THAT(nccl.devices_of_gpu(0), ElementsAre(0, 1));
  EXPECT_THAT(nccl.devices_of_gpu(1), ElementsAre(1, 2));
  EXPECT_THAT(nccl.devices_of_gpu(3), ElementsAre(3, 4));
}

TEST(LocalDevices, PowerOfTwo_IsSpreadByMirroredBits) {
  MadeMachine made;
  for (int i = 0; i < 4; ++i) made.add_gpu(-1, 0);
  for (int i = 0; i < 4; ++i) made.add_hca(-1, 0);
  Prediction nccl = predict_all(made.machine, Settings{});
  EXPECT_THAT(nccl.devices_of_gpu(0), ElementsAre(0));
  EXPECT_THAT(nccl.devices_of_gpu(1), ElementsAre(2));
  EXPECT_THAT(nccl.devices_of_gpu(2), ElementsAre(1));
  EXPECT_THAT(nccl.devices_of_gpu(3), ElementsAre(3));
}

TEST(LocalDevices, GpuNumber_CountsFromTheLocalGpusOnlyFrom2307) {
  MadeMachine made;
  for (int numa : {0, 0, 1, 1}) made.add_gpu(-1, numa);
  for (int numa : {0, 0, 0, 1, 1, 1}) made.add_hca(-1, numa, 200);
  EXPECT_THAT(predict_all(made.machine, Settings{}).devices_of_gpu(2), ElementsAre(3, 4));
  EXPECT_THAT(predict_all(made.machine, of_release("2.30.4")).devices_of_gpu(2), ElementsAre(5, 3));
}

TEST(LocalDevices, GpuWithANumberOfItsOwn_UsesThat) {
  MadeMachine made;
  for (int i = 0; i < 2; ++i) made.add_gpu(-1, 0).dev = 1 - i;
  for (int i = 0; i < 2; ++i) made.add_hca(-1, 0);
  Prediction nccl = predict_all(made.machine, Settings{});
  EXPECT_THAT(nccl.devices_of_gpu(0), ElementsAre(1));
  EXPECT_THAT(nccl.devices_of_gpu(1), ElementsAre(0));
}

TEST(LocalDevices, DevicesPolicy_CountsFrom228) {
  MadeMachine made;
  for (int i = 0; i < 2; ++i) made.add_gpu(-1, 0);
  for (int i = 0; i < 4; ++i) made.add_hca(-1, 0);
  Settings settings = of_release("2.28.9");
  EXPECT_THAT(predict_all(made.machine, settings).devices_of_gpu(1), ElementsAre(2, 3));
  settings.net_devices = {NetDevicesPolicy::Kind::kAll, 0};
  EXPECT_THAT(predict_all(made.machine, settings).devices_of_gpu(1), ElementsAre(2, 3, 0, 1));
  settings.net_devices = {NetDevicesPolicy::Kind::kMax, 1};
  EXPECT_THAT(predict_all(made.machine, settings).devices_of_gpu(1), ElementsAre(2));
  settings.release = Release{2, 27, 7};
  EXPECT_THAT(predict_all(made.machine, settings).devices_of_gpu(1), ElementsAre(2, 3));
}

TEST(LocalDevices, UnknownSpeeds_AreAssumedAndStated) {
  MadeMachine made;
  made.add_gpu(-1, 0);
  made.add_hca(-1, 0, 200);
  made.add_hca(-1, 0, 0);
  made.machine.gpus[0].link = {};
  Prediction nccl = predict_all(made.machine, Settings{});
  EXPECT_THAT(nccl.devices_of_gpu(0), ElementsAre(0, 1));
  EXPECT_EQ(nccl.assumptions().size(), 2u);
  made.machine.nccl_file = true;
  Prediction of_file = predict_all(made.machine, Settings{});
  EXPECT_TRUE(of_file.assumptions().empty());
  EXPECT_FLOAT_EQ(static_cast<float>(of_file.gpu_to_device(0, 0).gb_per_s), 12.0F);
  EXPECT_FLOAT_EQ(static_cast<float>(of_file.gpu_to_device(0, 1).gb_per_s), 1.25F);
}

// Speed and width fall back to PCIe 3.0 and x16 separately.
TEST(LocalDevices, LinkThatSysfsDoesNotState_IsWhatNcclAssumes) {
  MadeMachine made;
  made.add_gpu(-1, 0);
  made.add_hca(-1, 0, 0);
  made.machine.sysfs = true;
  auto bandwidth = [&](PciLink link) {
    made.machine.gpus[0].link = link;
    made.machine.hcas[0].ports[0].speed_mbps = 800000;
    Prediction nccl = predict_all(made.machine, Settings{});
    EXPECT_TRUE(nccl.assumptions().empty());
    return static_cast<float>(nccl.gpu_to_device(0, 0).gb_per_s);
  };
  EXPECT_FLOAT_EQ(bandwidth({}), 12.0F);
  EXPECT_FLOAT_EQ(bandwidth({0, 8}), 6.0F);
  EXPECT_FLOAT_EQ(bandwidth({16, 0}), 24.0F);
  made.machine.hcas[0].ports[0].speed_mbps = 0;
  Prediction nccl = predict_all(made.machine, Settings{});
  EXPECT_FLOAT_EQ(static_cast<float>(nccl.gpu_to_device(0, 0).gb_per_s), 1.25F);
}

}  // namespace
}  // namespace gdr::topology::nccl
