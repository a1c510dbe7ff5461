// Settings that cost GPUs their rails.
#include <gmock/gmock.h>

#include "tests/unit/tools/topo_command_fixture.h"

namespace gdr::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(TopoCommand, HcaListThatLeavesGpusWorseOff_NamesThePortsThatItExcludes) {
  EXPECT_THAT(run("--hca mlx5_0,mlx5_1 --from " + known(kMachine)).out,
              HasSubstr("\n  mlx5_2:1 is excluded by NCCL_IB_HCA\n"));
}

TEST_F(TopoCommand, NameInAnHcaListThatMatchesNothing_IsWarnedAbout) {
  const std::string from = " --from " + known(kMachine);
  EXPECT_THAT(run("--hca mlx5_0,mlx5_77" + from).err,
              HasSubstr("warning: --hca mlx5_0,mlx5_77: 'mlx5_77' matches no port"));
  EXPECT_THAT(run("--hca =mlx5_0,mlx5_" + from).err, HasSubstr("'mlx5_' matches no port"));
  EXPECT_THAT(run("--hca mlx5_0:7,mlx5_1" + from).err, HasSubstr("'mlx5_0:7' matches no port"));
  EXPECT_THAT(run("--hca mlx5_0,mlx5_" + from).err, Not(HasSubstr("matches no port")));
  EXPECT_THAT(run("--hca ^mlx5_77" + from).err, HasSubstr("note: --hca ^mlx5_77: 'mlx5_77'"));
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
