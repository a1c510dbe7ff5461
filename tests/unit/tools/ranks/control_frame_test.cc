#include "tools/ranks/control_frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gdr::tools {
namespace {
using testing::ElementsAre;

TEST(GatheredFrame, RoundTrip_KeepsEveryPart) {
  std::vector<std::string> parts;
  EXPECT_TRUE(parse_gathered(make_gathered({"a", "", std::string("\0b", 2)}), 3, &parts));
  EXPECT_THAT(parts, ElementsAre("a", "", std::string("\0b", 2)));
}

TEST(GatheredFrame, TruncatedOrOverlongPayload_IsRejected) {
  std::vector<std::string> parts;
  std::string whole = make_gathered({"abc", "de"});
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(parse_gathered(whole.substr(0, length), 2, &parts)) << length;
  }
  EXPECT_FALSE(parse_gathered(whole + "x", 2, &parts));
  EXPECT_FALSE(parse_gathered(whole, 3, &parts));
}
}  // namespace
}  // namespace gdr::tools
