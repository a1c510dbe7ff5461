// Settings that cost GPUs their rails.
#include <gmock/gmock.h>

#include "tests/unit/tools/topo_command_fixture.h"

namespace gdr::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(TopoCommand, HcaListThatLeavesGpusWorseOff_IsTakenBack) {
  const std::string source = "--hca mlx5_0,mlx5_1 --from " + known(kMachine);
  EXPECT_THAT(run(source).out, HasSubstr("\n  mlx5_2:1 is excluded by NCCL_IB_HCA\n"));
  const std::string env = run("--env " + source).out;
  EXPECT_THAT(env, HasSubstr("unset NCCL_IB_HCA\n"));
  EXPECT_THAT(env, Not(HasSubstr("export NCCL_IB_HCA")));
}

TEST_F(TopoCommand, NameInAnHcaListThatMatchesNothing_IsWarnedAbout) {
  const std::string from = " --from " + known(kMachine);
  EXPECT_THAT(run("--hca mlx5_0,mlx5_77" + from).err,
              HasSubstr("warning: --hca mlx5_0,mlx5_77: \"mlx5_77\" matches no port"));
  EXPECT_THAT(run("--hca =mlx5_0,mlx5_" + from).err, HasSubstr("\"mlx5_\" matches no port"));
  EXPECT_THAT(run("--hca mlx5_0:7,mlx5_1" + from).err, HasSubstr("\"mlx5_0:7\" matches no port"));
  EXPECT_THAT(run("--hca mlx5_0,mlx5_" + from).err, Not(HasSubstr("matches no port")));
  EXPECT_THAT(run("--hca ^mlx5_77" + from).err, HasSubstr("note: --hca ^mlx5_77: \"mlx5_77\""));
}

TEST_F(TopoCommand, ListThatRestrictsNothing_IsKeptWhereTheMapIsTakenBack) {
  const std::string env = run("--env --hca mlx5_0,mlx5_1,mlx5_2,mlx5_3 --rail-map GPU0=mlx5_3 "
                              "--from " +
                              known(kMachine))
                              .out;
  EXPECT_THAT(env, StartsWith("# --rail-map GPU0=mlx5_3: this gives GPU"));
  EXPECT_THAT(env, HasSubstr("unset GDR_NCCL_RAIL_MAP\n"));
  EXPECT_THAT(env, Not(HasSubstr("unset NCCL_IB_HCA\n")));
  const std::string fewer =
      run("--env --hca ^mlx5_3 --rail-map GPU0=mlx5_0 --from " + known(kMachine)).out;
  EXPECT_THAT(fewer, HasSubstr("unset NCCL_IB_HCA\n"));
}

TEST_F(TopoCommand, ListOfTheEnvironment_DoesNotApplyToHcasThatTheFileHasNoNamesOf) {
  const std::string file = known("nccl-azure-ndv5.xml");
  setenv("NCCL_IB_HCA", "mlx5_ib", 1);
  const Printed result = run("--from " + file);
  unsetenv("NCCL_IB_HCA");
  EXPECT_THAT(result.err, HasSubstr("NCCL_IB_HCA=mlx5_ib: does not apply to "));
  EXPECT_EQ(run("--hca mlx5_ib --from " + file).code, 2);
}

}  // namespace
}  // namespace gdr::tools
