#include "plugin/config/values.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

namespace gdr::config {
namespace {

constexpr int kUntouched = -99;

int integer(const std::string& text, IntegerRange range) {
  int value = kUntouched;
  Status status = parse_integer(text, range, &value);
  EXPECT_EQ(status.has_value(), value != kUntouched) << text;
  return value;
}

TEST(Values, Integer_AnyBaseOfStrtoll_IsRead) {
  const std::pair<const char*, int> cases[] = {{"22", 22}, {"0x1F", 31}, {"017", 15}, {"-1", -1},
                                               {"+7", 7},  {" 7 \n", 7}, {"0", 0},    {"31", 31}};
  for (const auto& [text, number] : cases) EXPECT_EQ(integer(text, {-1, 31}), number) << text;
}

TEST(Values, Integer_NoNumberOrOutOfRange_IsRejectedAndLeavesTheValue) {
  for (const char* text : {"", " ", "x", "7x", "7 x", "7.0", "32", "-1", "0x", "08", "--1", "1e1",
                           "99999999999999999999", "-99999999999999999999", "4294967296"}) {
    EXPECT_EQ(integer(text, {0, 31}), kUntouched) << text;
  }
}

// NCCL does not read the plugin's own variables.
TEST(Values, Boolean_ZeroAndOneOnly_AreRead) {
  bool value = false;
  EXPECT_TRUE(parse_boolean("1", false, &value).has_value());
  EXPECT_TRUE(value);
  for (const char* text : {"2", "-1", "true", "yes", ""}) {
    EXPECT_EQ(parse_boolean(text, false, &value).error().text, "it is neither 0 nor 1") << text;
    EXPECT_EQ(parse_boolean(text, true, &value).error().text,
              "it is neither 0 nor 1 (NCCL reads any number but 0 as 1)");
    EXPECT_TRUE(value);
  }
  EXPECT_TRUE(parse_boolean("0", false, &value).has_value());
  EXPECT_FALSE(value);
}

TEST(Values, Family_CapitalsOnly_AreRead) {
  int family = kUntouched;
  EXPECT_TRUE(parse_family("AF_INET6", &family).has_value());
  EXPECT_EQ(family, AF_INET6);
  EXPECT_TRUE(parse_family("AF_INET", &family).has_value());
  EXPECT_EQ(family, AF_INET);
  for (const char* text : {"af_inet6", "INET", "AF_INET66", "AF_UNIX", "", "2"}) {
    EXPECT_FALSE(parse_family(text, &family).has_value()) << text;
  }
}

TEST(Values, Quoted_ControlCharactersAndLongText_AreReplaced) {
  EXPECT_EQ(quoted("a\nb\x01\xff"), "\"a?b??\"");
  EXPECT_EQ(quoted(std::string(500, 'x')).size(), 128u + 5u);
}

TEST(Values, EditDistance_KnownPairs_IsLevenshteins) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("flaw", "lawn"), 2u);
}

}  // namespace
}  // namespace gdr::config
