// --env, and where settings come from.
#include <gmock/gmock.h>

#include "tests/unit/tools/topo_command_fixture.h"

namespace gdr::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(TopoCommand, RailMapOfTheEnvironment_CountsLikeTheOption) {
  const std::string source = " --from " + known(kMachine);
  const std::string map = "GPU0=mlx5_3;GPU7=mlx5_0";
  auto by_environment = [&](const std::string& mode) {
    setenv("GDR_NCCL_RAIL_MAP", map.c_str(), 1);
    const Printed result = run(mode + source);
    unsetenv("GDR_NCCL_RAIL_MAP");
    return result;
  };
  auto by_option = [&](const std::string& mode) {
    return run(mode + " --rail-map '" + map + "'" + source);
  };
  EXPECT_THAT(by_environment("--check").out,
              HasSubstr("GDR_NCCL_RAIL_MAP=GPU0=mlx5_3;GPU7=mlx5_0 leaves out mlx5_1:1"));
  EXPECT_THAT(by_option("--check").out,
              HasSubstr("--rail-map GPU0=mlx5_3;GPU7=mlx5_0 leaves out mlx5_1:1"));
  EXPECT_THAT(by_option("--env").out, HasSubstr("unset GDR_NCCL_RAIL_MAP\n"));
  EXPECT_THAT(by_environment("--env").out, HasSubstr("unset GDR_NCCL_RAIL_MAP\n"));
  EXPECT_THAT(by_environment("").out,
              HasSubstr("\nRails, by GDR_NCCL_RAIL_MAP in the environment\n"));
  EXPECT_THAT(by_option("").out, HasSubstr("\nRails, by --rail-map\n"));
}

TEST_F(TopoCommand, RailMapThatDoesNotFit_IsNotTheRailsOrigin) {
  setenv("GDR_NCCL_RAIL_MAP", "GPU0=mlx5_99", 1);
  const Printed result = run("--from " + known(kMachine));
  unsetenv("GDR_NCCL_RAIL_MAP");
  EXPECT_THAT(result.out, HasSubstr("\nRails\n"));
}

TEST_F(TopoCommand, LevelOfNcclsConfigurationFile_IsTakenBackByItsLine) {
  const std::string file = write("nccl.conf", "# site\nNCCL_NET_GDR_LEVEL=LOC\n");
  setenv("NCCL_CONF_FILE", file.c_str(), 1);
  const Printed result = run("--env --from " + known(kMachine));
  unsetenv("NCCL_CONF_FILE");
  EXPECT_THAT(result.out, HasSubstr("# Line 2 of " + file + " sets NCCL_NET_GDR_LEVEL: "));
  EXPECT_THAT(result.out, HasSubstr("\nexport NCCL_NET_GDR_LEVEL=''\n"));
  EXPECT_THAT(result.out, Not(HasSubstr("unset")));
}

TEST_F(TopoCommand, SettingsThatCannotBeUsed_AreTakenBack) {
  const std::string file = write("nccl.conf", "NCCL_IB_TC=800\n");
  const std::pair<const char*, const char*> set[] = {{"NCCL_CONF_FILE", file.c_str()},
                                                     {"NCCL_NET_GDR_LEVEL", "FOO"},
                                                     {"GDR_NCCL_RAIL_MAP", "GPU0=mlx5_99"}};
  for (const auto& [name, value] : set) setenv(name, value, 1);
  const std::string env = run("--env --from " + known(kMachine)).out;
  for (const auto& [name, value] : set) unsetenv(name);
  EXPECT_THAT(env, HasSubstr("# NCCL_NET_GDR_LEVEL=FOO cannot be used: the warning says why. The "
                             "default counts.\nunset NCCL_NET_GDR_LEVEL\n"));
  EXPECT_THAT(env, HasSubstr("\nunset GDR_NCCL_RAIL_MAP\n"));
  EXPECT_THAT(env, HasSubstr("# Line 1 of " + file + " sets NCCL_IB_TC: remove it there."));
  EXPECT_THAT(env, HasSubstr("\nexport NCCL_IB_TC=''\n"));
  EXPECT_THAT(env, Not(HasSubstr("--check")));
}

TEST_F(TopoCommand, LevelOptionThatKeepsGpusFromGpuDirect_IsNamedAndNotExported) {
  const std::string source = " --gdr-level LOC --from " + known(kMachine);
  const std::string env = run("--env" + source).out;
  EXPECT_THAT(env, StartsWith("# --gdr-level LOC keeps GPU0, GPU1, GPU2 and 5 more from"));
  EXPECT_THAT(env, Not(HasSubstr("NCCL_NET_GDR_LEVEL")));
  const std::string check = run("--check" + source).out;
  EXPECT_THAT(check, HasSubstr("Fix: leave out --gdr-level LOC\n"));
  EXPECT_THAT(check, Not(HasSubstr("unset")));
  setenv("NCCL_NET_GDR_LEVEL", "LOC", 1);
  const std::string env_of_both = run("--env" + source).out;
  const std::string check_of_variable = run("--check --from " + known(kMachine)).out;
  unsetenv("NCCL_NET_GDR_LEVEL");
  EXPECT_THAT(env_of_both, HasSubstr("\nunset NCCL_NET_GDR_LEVEL\n"));
  EXPECT_THAT(check_of_variable, HasSubstr("Fix: unset NCCL_NET_GDR_LEVEL\n"));
}

TEST_F(TopoCommand, LevelOfNcclsFileThatKeepsGpusFromGpuDirect_IsAFaultWithItsLine) {
  const std::string file = write("nccl.conf", "NCCL_NET_GDR_LEVEL=LOC\n");
  setenv("NCCL_CONF_FILE", file.c_str(), 1);
  const std::string check = run("--check --from " + known(kMachine)).out;
  unsetenv("NCCL_CONF_FILE");
  EXPECT_THAT(check, HasSubstr("Fix: remove NCCL_NET_GDR_LEVEL from line 1 of " + file + "\n"));
}

TEST_F(TopoCommand, FaultsThatNoSettingFixes_AreCountedBelowTheSettings) {
  const std::string env = run("--env --from " + known("nccl-cross-wired.xml")).out;
  EXPECT_THAT(env, HasSubstr("\nexport NCCL_NET_GDR_LEVEL='PHB'\n"
                             "# `nccl-gdr topo --check` finds 3 faults that no advised setting "
                             "fixes: run it.\n"));
}

TEST_F(TopoCommand, WarningAboutAListThatIsTakenBack_IsNotCountedAsLeft) {
  setenv("NCCL_IB_HCA", "mlx5_0,mlx5_99", 1);
  const std::string env = run("--env --from " + known(kMachine)).out;
  unsetenv("NCCL_IB_HCA");
  EXPECT_THAT(env, HasSubstr("\nunset NCCL_IB_HCA\n"));
  EXPECT_THAT(env, Not(HasSubstr("--check")));
}

TEST_F(TopoCommand, EnvOfASourceWithoutNames_IsAnErrorWithAdvice) {
  const std::string matrix =
      "\tGPU0\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPXB\t0-7\t0\nNIC0\tPXB\t X \n";
  const Printed made_up = run("--env --from " + write("smi.txt", matrix));
  EXPECT_EQ(made_up.code, 2);
  EXPECT_THAT(made_up.out, IsEmpty());
  EXPECT_THAT(made_up.err, HasSubstr("(made-up names: NIC0)"));
  EXPECT_EQ(run("--env --from " + write("s.txt", matrix + "NIC Legend:\n  NIC0: mlx5_0\n")).code,
            0);
  const Printed addresses = run("--env --from " + known("nccl-azure-ndv5.xml"));
  EXPECT_EQ(addresses.code, 2);
  EXPECT_THAT(addresses.out, IsEmpty());
  EXPECT_THAT(addresses.err, HasSubstr("(PCI addresses: 0201:00:00.0, 0202:00:00.0"));
}

TEST_F(TopoCommand, Env_IsTextForAShell) {
  const Printed result = run("--env --from " + known("nccl-dgx-a100.xml"));
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("export NCCL_IB_HCA='=mlx5_0:1,mlx5_1:1,"));
}

}  // namespace
}  // namespace gdr::tools
