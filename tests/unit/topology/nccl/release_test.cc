#include "topology/nccl/release.h"

#include <gtest/gtest.h>

namespace gdr::topology::nccl {
namespace {

TEST(Release, TextAndCodes_AreTheSameRelease) {
  EXPECT_EQ(Release::parse("2.28.9").value(), (Release{2, 28, 9}));
  EXPECT_EQ(Release::parse("22809").value(), (Release{2, 28, 9}));
  EXPECT_EQ(Release::of_code(2804), (Release{2, 8, 4}));
  EXPECT_EQ(Release::parse("2.28.9").value().to_string(), "2.28.9");
}

TEST(Release, NoPatchNumber_IsTheLastPatch) {
  Release release = Release::parse("2.28").value();
  EXPECT_GT(release, (Release{2, 28, 9}));
  EXPECT_LT(release, (Release{2, 29, 0}));
  EXPECT_EQ(release.to_string(), "2.28");
}

TEST(Release, OtherText_IsRefused) {
  for (const char* text : {"", "2", "2.", "2.28.", "2.28.9.1", "v2.28.9", "2.x", "-2.28", "newest",
                           "99999999999999999999"}) {
    EXPECT_FALSE(Release::parse(text)) << text;
  }
}

}  // namespace
}  // namespace gdr::topology::nccl
