#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "plugin/config/load.h"
#include "tests/unit/tools/command_run.h"

namespace gdr::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(EnvCommand, Text_SetAndRejected_AreShownWithTheValueInForce) {
  std::string text = env_text(
      config::describe({{"NCCL_IB_TIMEOUT", "22"}, {"NCCL_IB_TC", "999"}, {"GDR_NCCL_X", "1"}}));
  EXPECT_THAT(text, HasSubstr("NCCL_IB_TIMEOUT = 22   [set]\n    integer: 0 to 31"));
  EXPECT_THAT(text, HasSubstr("NCCL_IB_TC = -1   [rejected]"));
  EXPECT_THAT(text, HasSubstr("! NCCL_IB_TC: \"999\" cannot be used"));
  EXPECT_THAT(text, HasSubstr("NCCL_IB_HCA = every device and port   [default]"));
  EXPECT_THAT(text, HasSubstr("! GDR_NCCL_X: the plugin has no variable of this name"));
  EXPECT_THAT(env_text(config::describe({{"NCCL_TOPO_FILE", ""}})),
              HasSubstr("NCCL_TOPO_FILE = /dev/null   [set]"));
}

TEST(EnvCommand, Text_EveryLine_FitsTheScreen) {
  std::istringstream lines(env_text(config::describe({{"NCCL_IB_TIMEOUT", "99"}})));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST(EnvCommand, VariableThatDoesNotApply_IsShownWithTheReason) {
  config::Description description =
      config::describe({{"NCCL_IB_OOO_RQ", "1"}, {"NCCL_IB_USE_INLINE", "1"}});
  std::string text = env_text(description);
  EXPECT_THAT(text, HasSubstr("NCCL_IB_OOO_RQ = 1   [does not apply]\n    receive queues are"));
  EXPECT_THAT(text, HasSubstr("! NCCL_IB_OOO_RQ: \"1\" has no effect on the plugin: "));
  EXPECT_THAT(text, Not(HasSubstr("! NCCL_IB_USE_INLINE")));
}

class EnvCommandRun : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const auto& [name, value] : config::process_environment()) unsetenv(name.c_str());
  }
  void TearDown() override { SetUp(); }
};

TEST_F(EnvCommandRun, Env_CleanEnvironment_ExitsWith0) {
  const Printed run = run_command("env");
  EXPECT_EQ(run.code, 0);
  EXPECT_THAT(run.out, HasSubstr("GDR_NCCL_WATCHDOG_SEC = 60   [default]"));
}

TEST_F(EnvCommandRun, Env_RejectedValue_ExitsWith1AfterPrintingButMarkdownIsTheDocument) {
  setenv("NCCL_IB_TIMEOUT", "forever", 1);
  EXPECT_EQ(run_command("env").code, 1);
  const Printed markdown = run_command("env --markdown");
  EXPECT_EQ(markdown.code, 0);
  EXPECT_EQ(markdown.out, config::markdown());
}

TEST_F(EnvCommandRun, Env_MisspeltVariableOfTheTransport_ExitsWith1AndAnUnknownOneWith0) {
  setenv("NCCL_IB_ENTIRELY_DIFFERENT", "1", 1);
  const Printed run = run_command("env");
  EXPECT_EQ(run.code, 0);
  EXPECT_THAT(run.out, HasSubstr("! NCCL_IB_ENTIRELY_DIFFERENT: neither"));
  setenv("NCCL_IB_HCAS", "mlx5_0", 1);
  EXPECT_EQ(run_command("env").code, 1);
}

}  // namespace
}  // namespace gdr::tools
