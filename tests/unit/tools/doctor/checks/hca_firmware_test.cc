#include <gmock/gmock.h>

#include "tests/unit/tools/doctor/made_fabric.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;

TEST(HcaFirmware, EqualVersions_AreOk) {
  MadeFabric made;
  made.add_infiniband();
  made.add_infiniband();
  EXPECT_EQ(worst_of(hca_firmware(), made.host).evidence, "firmware 28.39.1002");
}

TEST(HcaFirmware, OneOfThreeDiffers_IsAWarningThatNamesIt) {
  MadeFabric made;
  for (int i = 0; i < 3; ++i) made.add_infiniband();
  made.hca(1).firmware = "28.40.1000";
  const Observation seen = worst_of(hca_firmware(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kWarning);
  EXPECT_EQ(seen.subject, "mlx5_1");
  EXPECT_THAT(seen.evidence, HasSubstr("others of the board have 28.39.1002"));
}

TEST(HcaFirmware, OtherBoard_MayHaveOtherFirmware) {
  MadeFabric made;
  made.add_infiniband();
  made.add_infiniband();
  made.hca(1).firmware = "22.1";
  made.hca(1).board_id = "DEL0000000027";
  EXPECT_EQ(verdict_of(hca_firmware(), made.host), Verdict::kOk);
}

TEST(HcaFirmware, WithoutVersion_IsUnknown) {
  MadeFabric made;
  made.add_infiniband();
  made.hca(0).firmware = "";
  EXPECT_EQ(verdict_of(hca_firmware(), made.host), Verdict::kUnknown);
}

}  // namespace
}  // namespace gdr::tools::doctor
