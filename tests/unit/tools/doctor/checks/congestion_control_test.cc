#include <gmock/gmock.h>

#include "tests/unit/tools/doctor/made_fabric.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;

void set_ecn(MadeFabric* made, const std::string& netdev, const char* value) {
  for (int priority = 0; priority < 8; ++priority) {
    for (const char* role : {"roce_np", "roce_rp"}) {
      made->write(
          "/sys/class/net/" + netdev + "/ecn/" + role + "/enable/" + std::to_string(priority),
          value);
    }
  }
}

TEST(CongestionControl, InfiniBandAlone_IsOk) {
  MadeFabric made;
  made.add_infiniband();
  EXPECT_EQ(verdict_of(congestion_control(), made.host), Verdict::kNothing);
}

TEST(CongestionControl, NothingReadable_IsUnknown) {
  MadeFabric made;
  made.add_roce();
  const Observation seen = worst_of(congestion_control(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kUnknown);
  EXPECT_EQ(seen.evidence, "PFC unknown, ECN unknown, NCCL_IB_TC unset");
}

TEST(CongestionControl, PfcOnPriority3WithoutTrafficClass_IsAWarningWithTheClass) {
  MadeFabric made;
  made.add_roce();
  made.netdev(0).pfc = 0x08;
  const Observation seen = worst_of(congestion_control(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kWarning);
  EXPECT_THAT(seen.evidence, HasSubstr("PFC on for priority 3"));
  EXPECT_THAT(seen.fix, HasSubstr("NCCL_IB_TC=106"));
  made.host.environment["NCCL_IB_TC"] = "106";
  EXPECT_EQ(verdict_of(congestion_control(), made.host), Verdict::kOk);
}

TEST(CongestionControl, ClassOfTheDriver_OverridesThatOfNccl) {
  MadeFabric made;
  made.add_roce();
  made.write("/sys/class/infiniband/mlx5_0/tc/1/traffic_class", "Global tclass=162\n");
  made.host.environment["NCCL_IB_TC"] = "106";
  EXPECT_THAT(worst_of(congestion_control(), made.host).evidence,
              HasSubstr("the driver's traffic class 162, NCCL_IB_TC=106: the driver's overrides"));
  made.host.environment["NCCL_IB_TC"] = "162";
  EXPECT_EQ(verdict_of(congestion_control(), made.host), Verdict::kUnknown);
}

TEST(CongestionControl, EcnOff_IsAWarningAndOnIsOk) {
  MadeFabric made;
  made.add_roce();
  set_ecn(&made, "eth0", "0\n");
  EXPECT_EQ(verdict_of(congestion_control(), made.host), Verdict::kWarning);
  set_ecn(&made, "eth0", "1\n");
  EXPECT_EQ(verdict_of(congestion_control(), made.host), Verdict::kOk);
}

TEST(CongestionControl, RailThatDiffers_IsAWarning) {
  MadeFabric made;
  made.add_roce();
  made.add_roce();
  made.host.environment["NCCL_IB_TC"] = "106";
  made.netdev(0).pfc = 0x08;
  made.netdev(1).pfc = 0;
  const Observation seen = worst_of(congestion_control(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kWarning);
  EXPECT_EQ(seen.subject, "mlx5_1:1");
}

TEST(CongestionControl, DeviceOfSoftware_IsOk) {
  MadeFabric made;
  made.add_roce();
  made.hca(0).is_virtual = true;
  EXPECT_EQ(verdict_of(congestion_control(), made.host), Verdict::kOk);
}

}  // namespace
}  // namespace gdr::tools::doctor
