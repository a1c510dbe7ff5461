#include "tools/common/nccl_logger.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace gdr::tools {
namespace {
constexpr unsigned long kInit = 0x1;
constexpr unsigned long kNet = 0x10;
constexpr unsigned long kEnv = 0x80;

TEST(LogFilter, DebugUnset_LogsNothing) {
  EXPECT_EQ(parse_log_filter(nullptr, nullptr).level, abi::kLogNone);
}

TEST(LogFilter, LevelInAnyCase_IsRead) {
  EXPECT_EQ(parse_log_filter("info", nullptr).level, abi::kLogInfo);
  EXPECT_EQ(parse_log_filter("TRACE", nullptr).level, abi::kLogTrace);
}

TEST(LogFilter, SubsystemsUnset_UsesNcclsDefault) {
  LogFilter filter = parse_log_filter("INFO", nullptr);
  EXPECT_NE(filter.subsystems & kInit, 0u);
  EXPECT_NE(filter.subsystems & kEnv, 0u);
  EXPECT_EQ(filter.subsystems & kNet, 0u);
}

TEST(LogFilter, SubsystemList_SelectsOnlyThose) {
  EXPECT_EQ(parse_log_filter("INFO", "INIT,net").subsystems, kInit | kNet);
}

TEST(LogFilter, CaretList_SelectsAllOthers) {
  EXPECT_EQ(parse_log_filter("INFO", "^INIT,NET").subsystems, ~(kInit | kNet));
}

TEST(LogFile, PatternWithHostAndPid_Expands) {
  EXPECT_EQ(expand_log_file("/tmp/%h.%p.%%x"),
            "/tmp/" + host_name() + "." + std::to_string(getpid()) + ".%x");
  EXPECT_EQ(expand_log_file("100%"), "100%");
}
}  // namespace
}  // namespace gdr::tools
