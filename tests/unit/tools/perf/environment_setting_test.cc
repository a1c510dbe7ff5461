#include "tools/perf/environment_setting.h"

#include <gtest/gtest.h>

namespace gdr::tools {
namespace {
TEST(EnvironmentSetting, Staging_StandsForThePluginsVariable) {
  EXPECT_EQ(*parse_setting("staging"), (EnvironmentSetting{"GDR_NCCL_GPU_MEMORY", "staging"}));
}

TEST(EnvironmentSetting, NameAndValue_PartAtTheFirstEqualsSign) {
  EXPECT_EQ(*parse_setting("NCCL_IB_HCA==mlx5_0"), (EnvironmentSetting{"NCCL_IB_HCA", "=mlx5_0"}));
  EXPECT_EQ(*parse_setting("_a1="), (EnvironmentSetting{"_a1", ""}));
  EXPECT_EQ(parse_setting("A=b=c")->text(), "A=b=c");
}

TEST(EnvironmentSetting, Malformed_IsRefusedNamingIt) {
  for (const char* text : {"", "NAME", "=4", "1A=4", "A B=4", "A-B=4", " A=4"}) {
    auto setting = parse_setting(text);
    ASSERT_FALSE(setting) << text;
    EXPECT_NE(setting.error().text.find(std::string("\"") + text + "\""), std::string::npos);
  }
}
}  // namespace
}  // namespace gdr::tools
