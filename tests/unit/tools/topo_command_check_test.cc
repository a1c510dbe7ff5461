// --check, and settings that cost GPUs their rails.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/unit/tools/topo_command_fixture.h"

namespace gdr::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Document = nlohmann::ordered_json;

TEST_F(TopoCommand, CheckOfAGoodMachine_IsOneLineAndSuccess) {
  const Printed result = run("--check --from " + known(kMachine));
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "ok: 8 GPUs, 4 rails\n");
  EXPECT_THAT(result.err, HasSubstr("note: "));
}

TEST_F(TopoCommand, CheckOfABadMachine_NamesTheFaultAndFails) {
  const std::string bad = copy("node7.xml", kMachine, kLinks, kFewerLinks);
  const Printed result = run("--check --from " + known(kMachine) + " " + bad);
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, StartsWith("nccl-hgx-4nic: ok: "));
  EXPECT_THAT(result.out,
              HasSubstr("\nnode7: nvlink: GPU0 (0000:12:00.0): 17 NVLinks to NVSwitches"));
}

TEST_F(TopoCommand, CheckOfSeveral_PrintsANoteOnceForAll) {
  const Printed result =
      run("--check --from " + copy("node1.xml", kMachine) + " " + copy("node2.xml", kMachine));
  const std::string note = "ACS, IOMMU, BARs";
  const size_t first = result.err.find("note: " + note);
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(result.err.find(note, first + 10), std::string::npos);
}

// The list names one HCA twice, which only node2 has.
TEST_F(TopoCommand, NoteThatOneNodeGivesTwice_IsNotTakenForANoteOfAll) {
  const std::string nodes =
      copy("node1.xml", kMachine) + " " + copy("node2.xml", kMachine, "mlx5_3", "mlx5_77");
  const Printed result = run("--check --hca ^mlx5_77:1,mlx5_77:1 --from " + nodes);
  EXPECT_THAT(result.err, HasSubstr("note: node1: --hca ^mlx5_77:1,mlx5_77:1: "));
}

TEST_F(TopoCommand, CheckAsJson_HasTheFaults) {
  const std::string bad = copy("node7.xml", kMachine, kLinks, kFewerLinks);
  const Printed result = run("--check --json --from " + bad);
  EXPECT_EQ(result.code, 1);
  const Document json = Document::parse(result.out);
  EXPECT_EQ(json["node"], "node7");
  EXPECT_EQ(json["ok"], false);
  ASSERT_EQ(json["faults"].size(), 1u);
  EXPECT_EQ(json["faults"][0]["kind"], "nvlink");
  EXPECT_EQ(json["faults"][0]["subject"], "GPU0 (0000:12:00.0)");
  EXPECT_FALSE(json["notes"].empty());
}

TEST_F(TopoCommand, HcaListThatLeavesGpusWorseOff_IsAFault) {
  const std::string source = "--hca mlx5_0,mlx5_1 --from " + known(kMachine);
  EXPECT_THAT(run(source).out, HasSubstr("\n  mlx5_2:1 is excluded by NCCL_IB_HCA\n"));
  const Printed check = run("--check " + source);
  EXPECT_EQ(check.code, 1);
  EXPECT_THAT(check.out, HasSubstr("--hca mlx5_0,mlx5_1 leaves out mlx5_2:1, mlx5_3:1"));
}

// The kinds of faults of a machine, each once: "rail-share gdr-reach".
std::string kinds_of(const std::string& check) {
  std::istringstream lines(check);
  std::string kinds, last;
  for (std::string line; std::getline(lines, line);) {
    const std::string kind = line.substr(0, line.find(':'));
    if (kind != last) kinds += (kinds.empty() ? "" : " ") + kind;
    last = kind;
  }
  return kinds;
}

TEST_F(TopoCommand, FaultsOfKnownMachines_AreThose) {
  const std::pair<const char*, const char*> machines[] = {
      {"nccl-dgx-a100.xml", "ok"},       {"nccl-amd-8gpu.xml", "ok"},
      {"nccl-gb200-tray.xml", "ok"},     {"hwloc-dual-port-cards.xml", "ok"},
      {"cases/gb10b.xml", "ok"},         {"nccl-cross-wired.xml", "rail-share gdr-reach"},
      {"cases/nogpu.xml", "no-gpu"},     {"hwloc-two-socket-plain.xml", "gdr-reach"},
      {"hwloc-flat-vm.xml", "gdr-reach"}};
  for (const auto& [file, kinds] : machines) {
    EXPECT_EQ(kinds_of(run("--check --from " + known(file)).out), kinds) << file;
  }
}

TEST_F(TopoCommand, RailsJustBeyondTheLevel_GetTheLineThatRaisesIt) {
  for (const char* file : {"hwloc-two-socket-plain.xml", "hwloc-flat-vm.xml", "hwloc-power9.xml"}) {
    EXPECT_THAT(run("--check --from " + known(file)).out,
                HasSubstr("Fix: export NCCL_NET_GDR_LEVEL=PHB, and measure both"));
  }
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

TEST_F(TopoCommand, SettingThatLeavesGpusWorseOff_IsNamedWithItsValue) {
  const std::string map = "GPU0=mlx5_3";
  const std::string of_map = run("--check --rail-map " + map + " --from " + known(kMachine)).out;
  EXPECT_THAT(of_map, HasSubstr("--rail-map GPU0=mlx5_3 leaves out mlx5_0:1, "));
  EXPECT_THAT(of_map, Not(HasSubstr("--hca")));
  setenv("GDR_NCCL_RAIL_MAP", map.c_str(), 1);
  const std::string by_environment = run("--check --from " + known(kMachine)).out;
  unsetenv("GDR_NCCL_RAIL_MAP");
  EXPECT_THAT(by_environment, HasSubstr("GDR_NCCL_RAIL_MAP=GPU0=mlx5_3 leaves out mlx5_0:1, "));
}

TEST_F(TopoCommand, LevelThatKeepsGpusFromGpuDirect_IsAFaultWithWhereItIsSet) {
  const std::string check = "--check --from " + known(kMachine);
  EXPECT_THAT(run(check + " --gdr-level LOC").out, HasSubstr("Fix: leave out --gdr-level LOC\n"));
  setenv("NCCL_NET_GDR_LEVEL", "LOC", 1);
  EXPECT_THAT(run(check).out, HasSubstr("Fix: unset NCCL_NET_GDR_LEVEL\n"));
  unsetenv("NCCL_NET_GDR_LEVEL");
  const std::string file = write("nccl.conf", "NCCL_NET_GDR_LEVEL=LOC\n");
  setenv("NCCL_CONF_FILE", file.c_str(), 1);
  const std::string of_file = run(check).out;
  unsetenv("NCCL_CONF_FILE");
  EXPECT_THAT(of_file, HasSubstr("Fix: remove NCCL_NET_GDR_LEVEL from line 1 of " + file + "\n"));
}

TEST_F(TopoCommand, ListOfTheEnvironment_DoesNotApplyToHcasThatTheFileHasNoNamesOf) {
  const std::string file = known("nccl-azure-ndv5.xml");
  setenv("NCCL_IB_HCA", "mlx5_ib", 1);
  const Printed result = run("--check --from " + file);
  unsetenv("NCCL_IB_HCA");
  EXPECT_THAT(result.out, Not(HasSubstr("restriction: ")));
  EXPECT_THAT(result.err, HasSubstr("NCCL_IB_HCA=mlx5_ib: does not apply to "));
  EXPECT_EQ(run("--check --hca mlx5_ib --from " + file).code, 2);
}

}  // namespace
}  // namespace gdr::tools
