// Settings that cost GPUs their rails.
#include <gmock/gmock.h>

#include "tests/unit/tools/topo_command_fixture.h"

namespace gdr::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Runs with a list of the process environment.
Printed run_with_list(const char* list, const std::string& file) {
  setenv("NCCL_IB_HCA", list, 1);
  const Printed result = run_command("topo --from " + file);
  unsetenv("NCCL_IB_HCA");
  return result;
}

TEST_F(TopoCommand, HcaListThatLeavesGpusWorseOff_NamesThePortsThatItExcludes) {
  EXPECT_THAT(run_with_list("mlx5_0,mlx5_1", known(kMachine)).out,
              HasSubstr("\n  mlx5_2:1 is excluded by NCCL_IB_HCA\n"));
}

TEST_F(TopoCommand, NameInAnHcaListThatMatchesNothing_IsAWarning) {
  const std::string file = known(kMachine);
  EXPECT_THAT(run_with_list("mlx5_0,mlx5_77", file).err,
              HasSubstr("warning: NCCL_IB_HCA=mlx5_0,mlx5_77: 'mlx5_77' matches no port"));
  EXPECT_THAT(run_with_list("mlx5_0,mlx5_", file).err, Not(HasSubstr("matches no port")));
}

TEST_F(TopoCommand, HcaList_DoesNotApplyToHcasThatTheFileHasNoNamesOf) {
  EXPECT_THAT(run_with_list("mlx5_ib", known("nccl-azure-ndv5.xml")).err,
              HasSubstr("NCCL_IB_HCA=mlx5_ib: does not apply to "));
}

TEST_F(TopoCommand, DisabledRdma_IsAWarning) {
  setenv("NCCL_IB_DISABLE", "2", 1);
  const Printed result = run_command("topo --from " + known(kMachine));
  unsetenv("NCCL_IB_DISABLE");
  EXPECT_THAT(result.err, HasSubstr("warning: NCCL_IB_DISABLE is set"));
}

}  // namespace
}  // namespace gdr::tools
