#include "tools/doctor/check.h"

#include <gtest/gtest.h>

#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

TEST(CheckNamed, UnknownName_EndsTheProcessWithIt) {
  EXPECT_STREQ(check_named("iommu").name, "iommu");
  EXPECT_DEATH(check_named("no-such"), "there is no check no-such");
}

}  // namespace
}  // namespace gdr::tools::doctor
