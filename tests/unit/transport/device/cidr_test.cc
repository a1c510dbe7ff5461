#include "transport/device/cidr.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "tests/unit/transport/device/gid_text.h"

namespace gdr::transport {
namespace {

TEST(Cidr, Contains_IsWhatSharesFamilyAndPrefix) {
  const struct {
    const char* cidr;
    const char* gid;
    bool contained;
  } cases[] = {
      {"10.1.128.9/17", "::ffff:10.1.128.0", true},
      {"10.1.128.9/17", "::ffff:10.1.255.255", true},
      {"10.1.128.9/17", "::ffff:10.1.127.255", false},
      {"10.1.128.9/17", "::ffff:11.1.128.0", false},
      {"fd00:1:2::/47", "fd00:1:3::1", true},
      {"fd00:1:2::/47", "fd00:1:4::1", false},
      {"0.0.0.0/0", "::ffff:1.2.3.4", true},
      {"0.0.0.0/0", "fd00::1", false},
      {"::/0", "fd00::1", true},
      {"::/0", "::ffff:1.2.3.4", false},
      {"1.2.3.4/32", "::ffff:1.2.3.4", true},
      {"1.2.3.4/32", "::ffff:1.2.3.5", false},
      {"fd00::1/128", "fd00::1", true},
      {"fd00::1/128", "fd00::", false},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(Cidr::parse(one.cidr)->contains(gid(one.gid)), one.contained)
        << one.cidr << " " << one.gid;
  }
}

TEST(Cidr, Parse_BadText_NamesTheFault) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "prefix length is missing"},        {"10.0.0.0", "prefix length is missing"},
      {"10.0.0/8", "not an IPv4 address"},     {"/8", "not an IPv4 address"},
      {"fd00::g/8", "not an IPv6 address"},    {"10.0.0.0/", "from 0 to 32"},
      {"10.0.0.0/33", "from 0 to 32"},         {"10.0.0.0/-1", "from 0 to 32"},
      {"10.0.0.0/8x", "from 0 to 32"},         {"10.0.0.0/ 8", "from 0 to 32"},
      {"fd00::/129", "from 0 to 128"},         {"10.0.0.0/8/8", "from 0 to 32"},
      {"10.0.0.0/99999999999", "from 0 to 32"}};
  for (auto [text, expected] : cases) {
    Result<Cidr> result = Cidr::parse(text);
    ASSERT_FALSE(result.has_value()) << text;
    EXPECT_THAT(result.error().text, ::testing::HasSubstr(expected)) << text;
  }
  EXPECT_FALSE(Cidr::parse(std::string_view("10.0.0.0\0x/8", 12)).has_value());
}

TEST(Cidr, ToString_Parsed_IsParsedBack) {
  for (const char* text : {"10.0.0.0/8", "fd00:1::/48", "::/0"}) {
    EXPECT_EQ(Cidr::parse(text)->to_string(), text);
  }
}

}  // namespace
}  // namespace gdr::transport
