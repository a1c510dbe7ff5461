#include "tools/prediction/settings.h"

#include <gtest/gtest.h>

namespace gdr::topology::nccl {
namespace {

TEST(Release, TextAndCode_AreTheRelease) {
  const Release release{2, 28, 9};
  for (const char* text : {"2.28.9", "22809"}) {
    EXPECT_EQ(Release::parse(text).value(), release) << text;
  }
  EXPECT_EQ(release.to_string(), "2.28.9");
}

TEST(Release, NoPatchNumber_IsTheLastPatch) {
  Release release = Release::parse("2.28").value();
  EXPECT_GT(release, (Release{2, 28, 9}));
  EXPECT_LT(release, (Release{2, 29, 0}));
  EXPECT_EQ(release.to_string(), "2.28");
}

TEST(Release, OtherText_IsRefused) {
  for (const char* text : {"", "2", "2.", "2.28.", "2.28.9.1", "2.28.9-", "2.28.9-rc1", "2.28.9+",
                           "v2.28", "2.x", "-2.28", "newest", "99999999999999999999"}) {
    EXPECT_FALSE(Release::parse(text)) << text;
  }
}

TEST(Release, UnknownOnes_AreNotedWithTheNearest) {
  EXPECT_EQ(note_on_rules(Release{2, 31, 0}),
            "the rules of NCCL 2.31.0 are not known; what it will do is predicted by those of "
            "2.30.7");
  EXPECT_EQ(note_on_rules(Release{2, 19, 3}),
            "the rules of NCCL 2.19.3 are not known; what it will do is predicted by those of "
            "2.20.0");
  EXPECT_NE(note_on_rules(Release{2, 30, 8}), "");
  for (const char* known : {"2.20.3", "2.20", "2.25.1", "2.30.7", "2.30"}) {
    EXPECT_EQ(note_on_rules(Release::parse(known).value()), "") << known;
  }
}

}  // namespace
}  // namespace gdr::topology::nccl
