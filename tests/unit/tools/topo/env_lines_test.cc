#include "tools/topo/env_lines.h"

#include <gmock/gmock.h>

#include <sstream>

#include "tests/unit/topology/machines.h"

namespace gdr::tools::topo {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using topology::flat;
using topology::lopsided;
using topology::Machine;
using topology::PathClass;
using topology::scene_of;
using topology::two_sockets_with_switches;

std::string lines_on(Machine machine, const topology::nccl::Settings& settings = {},
                     const InspectOptions& options = {}) {
  return env_lines(Inspection{scene_of(std::move(machine), settings), {}, 0, ""}, options);
}

// The lines that a shell executes.
std::string commands_in(const std::string& text) {
  std::istringstream lines(text);
  std::string commands;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("#")) commands += line + "\n";
  }
  return commands;
}

// One GPU and one HCA below one switch.
Machine near() {
  Machine machine = two_sockets_with_switches();
  machine.gpus.resize(1);
  machine.hcas.resize(1);
  return machine;
}

TEST(EnvLines, RightDefaults_NeedNoSetting) {
  const std::string text = lines_on(near());
  EXPECT_THAT(commands_in(text), IsEmpty());
  EXPECT_THAT(text, StartsWith("# Nothing has to be set: the defaults of NCCL 2.30.7 are right"));
}

TEST(EnvLines, ExcludedPorts_AreKeptOffByAListOfTheRails) {
  const std::string text = lines_on(two_sockets_with_switches());
  EXPECT_EQ(commands_in(text), "export NCCL_IB_HCA='=mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1'\n");
  EXPECT_THAT(text,
              HasSubstr("# The rails in their order. This keeps NCCL off mlx5_4:1, mlx5_4:2"));
}

TEST(EnvLines, NumbersOfRailsThatTheUserGave_AreInTheList) {
  topology::RailOptions named;
  named.named = {{"mlx5_0", 1, 3}, {"mlx5_1", 1, 0}};
  InspectOptions options;
  options.hca = "mlx5_0:1:3,mlx5_1:1:0";
  Machine machine = flat(2, 2);
  const std::string text = env_lines(Inspection{scene_of(machine, {}, named), {}, 0, ""}, options);
  EXPECT_THAT(text, HasSubstr("export NCCL_IB_HCA='=mlx5_1:1:0,mlx5_0:1:3'\n"));
}

TEST(EnvLines, RailsJustBeyondTheLevel_GetALevel) {
  EXPECT_EQ(commands_in(lines_on(flat(1, 1))), "export NCCL_NET_GDR_LEVEL='PHB'\n");
}

TEST(EnvLines, RailOnAnotherSocket_GetsNoLevel) {
  Machine machine = lopsided();
  machine.gpus.erase(machine.gpus.begin());
  const std::string text = lines_on(machine);
  EXPECT_THAT(commands_in(text), IsEmpty());
  EXPECT_THAT(text, HasSubstr("# No setting is advised for GPU0"));
  EXPECT_THAT(text, Not(HasSubstr("Nothing has to be set")));
}

TEST(EnvLines, LevelThatTheUserSetTooLow_IsUnset) {
  topology::nccl::Settings settings;
  settings.gdr_level = PathClass::kLoc;
  EXPECT_EQ(commands_in(lines_on(near(), settings)), "unset NCCL_NET_GDR_LEVEL\n");
}

TEST(EnvLines, OptionsGiven_AreExported) {
  topology::nccl::Settings settings;
  settings.gdr_level = PathClass::kSys;
  InspectOptions options;
  options.gdr_level = "SYS";
  options.rail_map = "GPU0=it's";
  EXPECT_EQ(commands_in(lines_on(near(), settings, options)),
            "export NCCL_NET_GDR_LEVEL='SYS'\n"
            "export GDR_NCCL_RAIL_MAP='GPU0=it'\\''s'\n");
}

TEST(EnvLines, MapThatNcclWouldNotFollow_GetsAGeneratedFile) {
  topology::nccl::Settings settings;
  settings.gdr_level = PathClass::kPhb;
  const std::string map = "GPU0=mlx5_1;GPU1=mlx5_0";
  topology::RailOptions rails;
  rails.map = topology::RailMap::parse(map).value();
  InspectOptions options;
  options.rail_map = map;
  const Inspection inspection{scene_of(flat(2, 2), settings, rails), {}, 0, ""};
  const std::string text = env_lines(inspection, options);
  EXPECT_EQ(commands_in(text), "export GDR_NCCL_RAIL_MAP='" + map + "'\n" +
                                   "export GDR_NCCL_GENERATE_TOPO_FILE='1'\n");
  EXPECT_THAT(text, HasSubstr("# NCCL would use GPU0 mlx5_"));
}

TEST(EnvLines, NameWithALineBreak_StaysInItsQuotes) {
  Machine machine = two_sockets_with_switches();
  machine.hcas[0].name = "a\nrm -rf b";
  machine.hcas[4].name = "c\nexport D=1";
  std::istringstream lines(lines_on(machine));
  for (std::string line; std::getline(lines, line);) {
    EXPECT_THAT(line, AnyOf(StartsWith("#"), StartsWith("export NCCL_IB_HCA='=")));
  }
}

// NCCL then prefers the HCAs of other switches, and no setting changes that.
TEST(EnvLines, FaultThatNoSettingFixes_IsLeftToTheCheck) {
  Machine machine = topology::with_nvlink();
  machine.hcas[2].ports[0].speed_mbps = 200000;
  const std::string text = lines_on(machine);
  EXPECT_THAT(text, HasSubstr("# No setting makes NCCL follow all rails.\n"
                              "# First look for the fault: `nccl-gdr topo --check`"));
  EXPECT_THAT(text, Not(HasSubstr("Nothing has to be set")));
}

TEST(EnvLines, Level_NamesOnlyGpusThatGain) {
  Machine machine = lopsided();
  machine.gpus.push_back(
      topology::make_gpu(topology::bdf_of(0x20), topology::Attachment{-1, 0, -1}));
  const std::string text = lines_on(machine);
  EXPECT_THAT(text, HasSubstr("just too far away: GPU1.\n"));
  EXPECT_THAT(text, HasSubstr("# No setting is advised for GPU2"));
}

// The switches of GPUs on C2C show no HCA, as on a GB200 tray.
TEST(EnvLines, ReleaseThatDoesNotUseC2cByItself_GetsTheSetting) {
  Machine machine = flat(1, 1);
  machine.cpu.arch = "arm64";
  machine.gpus[0].c2c_links = 10;
  machine.gpus[0].c2c_mb_per_s = 44712;
  topology::nccl::Settings settings;
  settings.release = topology::nccl::Release::parse("2.26.5").value();
  EXPECT_EQ(commands_in(lines_on(machine, settings)), "export NCCL_NET_GDR_C2C='1'\n");
}

TEST(EnvLines, WorseRailsByTheUsersList_AreTakenBack) {
  Machine machine = topology::with_nvlink();
  machine.hcas.resize(2);
  const Inspection inspection{scene_of(machine),
                              {"mlx5_2:1 is excluded by NCCL_IB_HCA"},
                              0,
                              "",
                              scene_of(topology::with_nvlink())};
  const std::string text = env_lines(inspection, {});
  EXPECT_THAT(text, HasSubstr("unset NCCL_IB_HCA\n"));
  EXPECT_THAT(text, HasSubstr("# Left out: mlx5_2:1, mlx5_3:1."));
}

TEST(EnvLines, NoRail_HasOnlyAComment) {
  EXPECT_THAT(commands_in(lines_on(flat(1, 0))), IsEmpty());
}

TEST(EnvLines, MoreRailsThanNcclsListTakes_GetAComment) {
  InspectOptions options;
  options.hca = "mlx5";
  EXPECT_THAT(lines_on(flat(1, 32), {}, options), HasSubstr("export NCCL_IB_HCA='="));
  const std::string text = lines_on(flat(1, 33), {}, options);
  EXPECT_THAT(text, HasSubstr("# NCCL_IB_HCA cannot name 33 rails: it takes 32 entries."));
  EXPECT_THAT(text, Not(HasSubstr("export NCCL_IB_HCA")));
}

}  // namespace
}  // namespace gdr::tools::topo
