#include "topology/gdr_level.h"

#include <gmock/gmock.h>

namespace gdr::topology {
namespace {

using ::testing::HasSubstr;

TEST(GdrLevel, EveryClassByName_IsThatClass) {
  for (int i = 0; i < kPathClasses; ++i) {
    PathClass path = static_cast<PathClass>(i);
    Result<GdrLevel> level = GdrLevel::parse(to_string(path));
    ASSERT_TRUE(level) << to_string(path);
    EXPECT_EQ(level->path(), path);
    EXPECT_EQ(level->number_note(), "");
  }
}

TEST(GdrLevel, Numbers_AreReadAsNcclReadsThem) {
  const std::pair<const char*, PathClass> cases[] = {
      {"0", PathClass::kLoc},  {"1", PathClass::kPix},
      {"2", PathClass::kPxb},  {"3", PathClass::kPhb},
      {"4", PathClass::kSys},  {"5", PathClass::kSys},
      {"99", PathClass::kSys}, {"0x2", PathClass::kPxb},
      {"03", PathClass::kPhb}, {"08", PathClass::kLoc},  // no octal digit: strtol stops at the 0
      {"3x", PathClass::kPhb}, {"99999999999999999999", PathClass::kSys}};
  for (const auto& [text, path] : cases) {
    Result<GdrLevel> level = GdrLevel::parse(text);
    ASSERT_TRUE(level) << text;
    EXPECT_EQ(level->path(), path) << text;
    EXPECT_THAT(level->number_note(), HasSubstr(to_string(path))) << text;
  }
}

TEST(GdrLevel, TextThatNcclIgnores_IsAnError) {
  for (const char* text : {"", "pix", "PIXX", " PIX", "-1", "NODE", "NET", "x3"}) {
    EXPECT_FALSE(GdrLevel::parse(text)) << text;
  }
  EXPECT_THAT(GdrLevel::parse("NODE").error().text, HasSubstr("PHB"));
}

}  // namespace
}  // namespace gdr::topology
