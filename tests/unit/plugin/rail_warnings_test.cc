#include "plugin/rail_warnings.h"

#include <gmock/gmock.h>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/topology/machines.h"

namespace gdr::plugin {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class RailWarningsTest : public ::testing::Test {
 protected:
  // Device i is rail i, which is mlx5_<i>.
  RailWarnings warnings(RailWarningOptions options = {}) {
    std::vector<topology::PortRef> ports;
    for (const topology::Rail& rail : decision_.plan.rails) ports.push_back(rail.port);
    return RailWarnings(decision_, std::move(ports), options,
                        [](int device) { return "reason of device " + std::to_string(device); });
  }

  RecordedLog log_;
  topology::RailDecision decision_ = topology::scene_of(topology::two_sockets_with_switches());
};

TEST_F(RailWarningsTest, OwnRailOrUnknownGpuOrDevice_LogsNothing) {
  RailWarnings checked = warnings();
  EXPECT_TRUE(checked.check_device(0, 0));
  EXPECT_TRUE(checked.check_device(3, -1));
  EXPECT_TRUE(checked.check_device(-1, 0));
  EXPECT_TRUE(checked.check_device(99, 0));
  EXPECT_THAT(log_.lines(), IsEmpty());
}

TEST_F(RailWarningsTest, DistantHca_IsWarnedAboutOnceWithALevelThatAllowsIt) {
  decision_.machine.gpu_links_known = true;
  RailWarnings checked = warnings();
  EXPECT_TRUE(checked.check_device(3, 0));
  EXPECT_TRUE(checked.check_device(3, 0));
  EXPECT_THAT(log_.lines(),
              ElementsAre(AllOf(
                  StartsWith("WARN NET/GDR [no-gpudirect] : GPU0 uses mlx5_3:1 without GPUDirect "
                             "RDMA, through host memory: "),
                  HasSubstr("NCCL_NET_GDR_LEVEL=SYS allows it"))));
}

// NCCL also connects over devices that it will not use for the GPU.
TEST_F(RailWarningsTest, DistantHcaByTheUsersLevelOrUnknownNvLinks_IsInfoUnlessStrict) {
  decision_.machine.gpu_links_known = false;
  EXPECT_TRUE(warnings().check_device(3, 0));
  decision_.machine.gpu_links_known = true;
  decision_.gdr_level = topology::PathClass::kPix;
  EXPECT_TRUE(warnings().check_device(3, 0));
  EXPECT_TRUE(warnings({.strict = true}).check_device(3, 0));
  EXPECT_THAT(log_.lines(),
              ElementsAre(StartsWith("INFO "), StartsWith("INFO "), StartsWith("WARN ")));
}

// By PXN, NCCL compares the distance of a GPU one NVLink away, which is near the HCA.
TEST_F(RailWarningsTest, DistantHcaBehindANearerGpu_IsLoggedOnlyWithoutPxn) {
  decision_ = topology::scene_of(topology::with_nvlink());
  EXPECT_TRUE(warnings().check_device(3, 0));
  EXPECT_THAT(log_.lines(), IsEmpty());
  EXPECT_TRUE(warnings({.relays = false}).check_device(3, 0));
  EXPECT_THAT(log_.lines(), ElementsAre(HasSubstr("GPU0 uses mlx5_3:1 without GPUDirect RDMA")));
}

TEST_F(RailWarningsTest, HcaThatRegistersNoGpuMemory_IsAWarningOrWithStrictAnErrorEveryTime) {
  decision_.machine.hcas[1].gpudirect = false;
  EXPECT_TRUE(warnings().check_device(1, 2));
  EXPECT_THAT(
      log_.lines(),
      ElementsAre(AllOf(StartsWith("WARN NET/GDR [no-gpudirect] : GPU2 uses mlx5_1:1 without"),
                        HasSubstr("reason of device 1"))));
  RailWarnings checked = warnings({.strict = true});
  for (int i = 0; i < 2; ++i) {
    Status status = checked.check_device(1, 2);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kSystem);
    EXPECT_THAT(status.error().text,
                AllOf(HasSubstr("reason of device 1"), HasSubstr("GDR_NCCL_STRICT=1 forbids")));
  }
}

TEST_F(RailWarningsTest, DifferentRails_AreLoggedOnceForEachPair) {
  RailWarnings checked = warnings();
  checked.check_rails(0, 3, "one connection");
  checked.check_rails(0, 3, "another connection");
  checked.check_rails(3, 0, "one connection");
  for (const auto& [here, there] : {std::pair(2, 2), {-1, 2}, {2, -1}}) {
    checked.check_rails(here, there, "the same or unknown rails");
  }
  EXPECT_THAT(
      log_.lines(),
      ElementsAre(StartsWith("INFO NET/GDR [cross-rail] : rail 0 to rail 3: one connection"),
                  StartsWith("INFO NET/GDR [cross-rail] : rail 3 to rail 0: ")));
}

}  // namespace
}  // namespace gdr::plugin
