#include "topology/sources/pci_acs.h"

#include "tests/unit/topology/sources/config_space.h"
#include "tests/unit/topology/sources/made_sysfs.h"

namespace gdr::topology {
namespace {

Acs parse(const std::string& config) {
  return parse_acs({reinterpret_cast<const uint8_t*>(config.data()), config.size()});
}

TEST(ParseAcs, Control_HasTheRedirectBits) {
  // Source validation, upstream forwarding and the rest redirect nothing.
  EXPECT_TRUE(parse(config_with_acs(0xffff & ~0x0c)).known);
  EXPECT_FALSE(parse(config_with_acs(0xffff & ~0x0c)).redirects());
  Acs request = parse(config_with_acs(1 << 2));
  EXPECT_TRUE(request.known && request.request_redirect && !request.completion_redirect);
  EXPECT_TRUE(request.redirects());
  Acs completion = parse(config_with_acs(1 << 3));
  EXPECT_TRUE(completion.known && !completion.request_redirect && completion.completion_redirect);
  EXPECT_TRUE(completion.redirects());
}

TEST(ParseAcs, FirstCapabilityOrLast_IsFound) {
  EXPECT_TRUE(parse(config_space({{0x100, 0x000d, 0x148, 4}, {0x148, 0x0001, 0}})).redirects());
  // The list may lead backwards, and its lowest two bits are reserved.
  EXPECT_TRUE(
      parse(config_space({{0x100, 0x0001, 0xff3}, {0xff0, 0x0003, 0x200}, {0x200, 0x000d, 0, 4}}))
          .redirects());
}

TEST(ParseAcs, NoCapability_IsKnownAndOff) {
  for (const std::string& config :
       {config_space({}), config_space({{0x100, 0xffff, 0}}), config_space({{0x100, 0x0001, 0}})}) {
    EXPECT_TRUE(parse(config).known);
    EXPECT_FALSE(parse(config).redirects());
  }
}

// 64 bytes: without CAP_SYS_ADMIN. 256: a conventional function, or a host that reaches no more.
TEST(ParseAcs, ShortData_IsUnknown) {
  std::string whole = config_space({{0x100, 0x0001, 0x148}, {0x148, 0x000d, 0, 0x1d}});
  for (size_t bytes = 0; bytes < 0x148 + 8; ++bytes) {
    // A copy of that size, for the sanitizer to see what is read beyond it.
    EXPECT_FALSE(parse(std::string(whole.data(), bytes)).known) << bytes;
  }
  EXPECT_TRUE(parse(whole.substr(0, 0x148 + 8)).redirects());
}

TEST(ParseAcs, ListWithABadPointer_IsUnknown) {
  std::string at_the_end = config_space({{0x100, 0x0001, 0xffc}});
  at_the_end[0xffc] = 0x0d;
  for (const std::string& config :
       {config_space({{0x100, 0x0001, 0x100}}),
        config_space({{0x100, 0x0001, 0x148}, {0x148, 0x0003, 0x100}}),
        config_space({{0x100, 0x0001, 0x040}}),  // no extended capability
        std::string(4096, '\xff'),               // the function does not answer
        at_the_end}) {
    EXPECT_FALSE(parse(config).known);
  }
}

}  // namespace
}  // namespace gdr::topology
