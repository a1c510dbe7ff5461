#include "tools/doctor/check.h"

#include <gtest/gtest.h>

#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

TEST(CheckNamed, UnknownName_EndsTheProcessWithIt) {
  EXPECT_STREQ(check_named("iommu").name, "iommu");
  EXPECT_DEATH(check_named("no-such"), "there is no check no-such");
}

TEST(Joined, ObservationsThatDifferInTheSubject_BecomeOneWithTheStepsOfAll) {
  const FixStep one{"", "a", ""}, two{"", "b", ""};
  const Observations seen = with_joined_subjects(
      {failure("GPU0", "x", "f", {one}), ok("GPU1", "y"), failure("GPU2", "x", "f", {one, two})});
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].subject, "GPU0, GPU2");
  EXPECT_EQ(seen[0].steps.size(), 2u);
  EXPECT_EQ(seen[1].subject, "GPU1");
}

TEST(Joined, ObservationsThatDifferInMore_AreKept) {
  const Observations seen = with_joined_subjects(
      {failure("GPU0", "x", "f"), warning("GPU1", "x", "f"), failure("", "x", "f")});
  EXPECT_EQ(seen.size(), 3u);
}

}  // namespace
}  // namespace gdr::tools::doctor
