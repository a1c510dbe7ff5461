#include <gmock/gmock.h>

#include "tests/unit/tools/doctor/made_fabric.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;

TEST(SubnetManager, PortWithLids_IsOk) {
  MadeFabric made;
  made.add_infiniband();
  EXPECT_EQ(worst_of(subnet_manager(), made.host).evidence, "LID 7, subnet manager at LID 1");
}

TEST(SubnetManager, PortInInit_IsAFailure) {
  MadeFabric made;
  made.add_infiniband().state = LinkState::kInit;
  const Observation seen = worst_of(subnet_manager(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kFailure);
  EXPECT_THAT(seen.evidence, HasSubstr("INIT"));
}

TEST(SubnetManager, ActivePortWithoutLid_IsAFailure) {
  MadeFabric made;
  made.add_infiniband().lid = 0;
  EXPECT_EQ(verdict_of(subnet_manager(), made.host), Verdict::kFailure);
}

TEST(SubnetManager, LidOfManagerZero_IsAWarning) {
  MadeFabric made;
  made.add_infiniband().sm_lid = 0;
  EXPECT_EQ(verdict_of(subnet_manager(), made.host), Verdict::kWarning);
}

TEST(SubnetManager, UnknownLid_IsUnknown) {
  MadeFabric made;
  made.add_infiniband().lid.reset();
  EXPECT_EQ(verdict_of(subnet_manager(), made.host), Verdict::kUnknown);
}

TEST(SubnetManager, RoceAlone_NeedsNone) {
  MadeFabric made;
  made.add_roce().lid = 0;
  EXPECT_EQ(verdict_of(subnet_manager(), made.host), Verdict::kNothing);
}

}  // namespace
}  // namespace gdr::tools::doctor
