#include "plugin/config/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace gdr::config {
namespace {

TEST(Environment, Process_OursAndNccls_AreTakenAndNoOthers) {
  ASSERT_EQ(setenv("NCCL_IB_TC", "1=06", 1), 0);
  ASSERT_EQ(setenv("GDR_NCCL_TEST_ONLY", "", 1), 0);
  ASSERT_EQ(setenv("MY_NCCL_IB_TC", "x", 1), 0);
  ASSERT_EQ(setenv(kMlx5SingleThreaded, "1", 1), 0);
  Environment environment = process_environment();
  EXPECT_EQ(environment.at("NCCL_IB_TC"), "1=06");
  EXPECT_EQ(environment.at("GDR_NCCL_TEST_ONLY"), "");
  EXPECT_EQ(environment.count("MY_NCCL_IB_TC"), 0u);
  EXPECT_EQ(environment.count("PATH"), 0u);
  EXPECT_EQ(environment.at("MLX5_SINGLE_THREADED"), "1");
  unsetenv("NCCL_IB_TC");
  unsetenv("GDR_NCCL_TEST_ONLY");
  unsetenv("MY_NCCL_IB_TC");
  unsetenv(kMlx5SingleThreaded);
  EXPECT_EQ(process_environment().count("NCCL_IB_TC"), 0u);
}

}  // namespace
}  // namespace gdr::config
