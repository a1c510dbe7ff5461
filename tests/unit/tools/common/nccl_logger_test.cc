#include "tools/common/nccl_logger.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace gdr::tools {
namespace {
constexpr unsigned long kInit = 0x1;
constexpr unsigned long kNet = 0x10;
constexpr unsigned long kEnv = 0x80;

TEST(LogFilter, Level_IsReadInAnyCase) {
  EXPECT_EQ(parse_log_filter(nullptr, nullptr).level, abi::kLogNone);
  EXPECT_EQ(parse_log_filter("info", nullptr).level, abi::kLogInfo);
  EXPECT_EQ(parse_log_filter("TRACE", nullptr).level, abi::kLogTrace);
}

TEST(LogFilter, Subsystems_AreThoseListedOrNcclsDefault) {
  constexpr unsigned long kBootstrap = 0x1000;
  auto subsystems = [](const char* list) { return parse_log_filter("INFO", list).subsystems; };
  EXPECT_EQ(subsystems(nullptr), kInit | kEnv | kBootstrap);
  EXPECT_EQ(subsystems(""), kInit | kEnv | kBootstrap);
  EXPECT_EQ(subsystems("INIT,net"), kInit | kNet);
  EXPECT_EQ(subsystems("^INIT,NET"), ~(kInit | kNet));
  EXPECT_EQ(subsystems("all"), ~0ul);
  EXPECT_EQ(subsystems("RAS,nothing"), 0x8000u);
}

TEST(LogFile, PatternWithHostAndPid_Expands) {
  EXPECT_EQ(expand_log_file("/tmp/%h.%p.%%x"),
            "/tmp/" + host_name() + "." + std::to_string(getpid()) + ".%x");
  EXPECT_EQ(expand_log_file("100%"), "100%");
}
}  // namespace
}  // namespace gdr::tools
