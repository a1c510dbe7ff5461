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
using topology::RailDecision;
using topology::scene_of;
using topology::two_sockets_with_switches;

Inspection inspection_of(RailDecision decision, UserSettings set = {}) {
  return Inspection{std::move(decision), {}, 0, "", {}, std::move(set)};
}

std::string lines_of(const Inspection& inspection) {
  Result<std::string> lines = env_lines(inspection);
  return lines ? *lines : "error: " + lines.error().text;
}

std::string lines_on(Machine machine, const topology::nccl::Settings& settings = {},
                     UserSettings set = {}) {
  return lines_of(inspection_of(scene_of(std::move(machine), settings), std::move(set)));
}

UserSetting by_option(const std::string& value) { return {UserSetting::From::kOption, value}; }

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

TEST(EnvLines, PolicyInForceThatDoesNoHarm_IsNotCalledTheDefault) {
  topology::nccl::Settings settings;
  settings.net_devices = {topology::nccl::NetDevicesPolicy::Kind::kAll, 0};
  EXPECT_THAT(lines_on(near(), settings),
              StartsWith("# Nothing has to be changed: NCCL 2.30.7, NCCL_NETDEVS_POLICY=ALL is"));
}

TEST(EnvLines, PolicyMax1ThatLeavesRailsIdle_GetsTheDefaultAndIsNeverAdvised) {
  Machine machine = near();
  for (int i = 1; i < 4; ++i) {
    machine.hcas.push_back(machine.hcas[0]);
    machine.hcas.back().name = "mlx5_" + std::to_string(i);
    machine.hcas.back().bdf = topology::bdf_of(0x60 + i);
  }
  EXPECT_THAT(commands_in(lines_on(machine)), IsEmpty());
  topology::nccl::Settings settings;
  settings.net_devices = {topology::nccl::NetDevicesPolicy::Kind::kMax, 1};
  EXPECT_EQ(commands_in(lines_on(machine, settings)), "export NCCL_NETDEVS_POLICY='AUTO'\n");
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
  const UserSettings set = {{"NCCL_IB_HCA", by_option("mlx5_0:1:3,mlx5_1:1:0")}};
  const std::string text = lines_of(inspection_of(scene_of(flat(2, 2), {}, named), set));
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

TEST(EnvLines, LevelOfNcclsFile_IsOverriddenSinceUnsetDoesNothing) {
  topology::nccl::Settings settings;
  settings.gdr_level = PathClass::kLoc;
  const UserSettings set = {
      {"NCCL_NET_GDR_LEVEL", {UserSetting::From::kFile, "LOC", "/etc/nccl.conf", 3}}};
  const std::string text = lines_on(near(), settings, set);
  EXPECT_EQ(commands_in(text), "export NCCL_NET_GDR_LEVEL=''\n");
  EXPECT_THAT(text, HasSubstr("# Line 3 of /etc/nccl.conf sets NCCL_NET_GDR_LEVEL: remove it"));
}

TEST(EnvLines, OptionsGiven_AreExported) {
  topology::nccl::Settings settings;
  settings.gdr_level = PathClass::kSys;
  const UserSettings set = {{"NCCL_NET_GDR_LEVEL", by_option("SYS")},
                            {"GDR_NCCL_RAIL_MAP", by_option("GPU0=it's")}};
  EXPECT_EQ(commands_in(lines_on(near(), settings, set)),
            "export NCCL_NET_GDR_LEVEL='SYS'\n"
            "export GDR_NCCL_RAIL_MAP='GPU0=it'\\''s'\n");
}

// A map counts the same, wherever it comes from.
TEST(EnvLines, MapThatNcclWouldNotFollow_GetsAGeneratedFile) {
  topology::nccl::Settings settings;
  settings.gdr_level = PathClass::kPhb;
  const std::string map = "GPU0=mlx5_1;GPU1=mlx5_0";
  topology::RailOptions rails;
  rails.map = topology::RailMap::parse(map).value();
  using From = UserSetting::From;
  const std::pair<UserSetting, std::string> origins[] = {
      {{From::kOption, map}, "--rail-map"},
      {{From::kEnvironment, map}, "GDR_NCCL_RAIL_MAP in the environment"},
      {{From::kFile, map, "nccl.conf", 7}, "GDR_NCCL_RAIL_MAP in line 7 of nccl.conf"}};
  for (const auto& [setting, origin] : origins) {
    const std::string text = lines_of(
        inspection_of(scene_of(flat(2, 2), settings, rails), {{"GDR_NCCL_RAIL_MAP", setting}}));
    EXPECT_EQ(commands_in(text), "export GDR_NCCL_RAIL_MAP='" + map + "'\n");
    EXPECT_THAT(text, HasSubstr("--grouped > FILE; export NCCL_TOPO_FILE=FILE"));
    EXPECT_THAT(text, HasSubstr("# As given by " + origin + ".\n"));
    EXPECT_THAT(text, HasSubstr("# NCCL would use GPU0 mlx5_"));
  }
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
                              "# `nccl-gdr topo --check` finds 3 faults that no advised "
                              "setting fixes: run it.\n"));
  EXPECT_THAT(text, Not(HasSubstr("Nothing has to be set")));
}

TEST(EnvLines, PortDown_IsLeftToTheCheck) {
  Machine machine = two_sockets_with_switches();
  machine.hcas[0].ports[0].state = topology::Port::State::kDown;
  EXPECT_THAT(lines_on(machine), HasSubstr("\n# `nccl-gdr topo --check` finds 1 fault that"));
}

// A network interface of NCCL's file that it uses by sockets.
void make_interface(const char* name, topology::Hca* hca) {
  hca->name = name;
  hca->guid = 1;
  hca->gpudirect = false;
}

TEST(EnvLines, NetworkInterfaceWithoutRdma_IsNotInTheList) {
  Machine machine = two_sockets_with_switches();
  machine.nccl_file = true;
  make_interface("veth0", &machine.hcas[0]);
  const std::string text = lines_on(machine);
  EXPECT_THAT(text, HasSubstr("export NCCL_IB_HCA='=mlx5_1:1,mlx5_2:1,mlx5_3:1'\n"));
  EXPECT_THAT(text, HasSubstr("This keeps NCCL off mlx5_4:1, mlx5_4:2"));
  const std::string map = "GPU0=veth0";
  topology::RailOptions rails;
  rails.map = topology::RailMap::parse(map).value();
  const std::string with_map = lines_of(
      inspection_of(scene_of(machine, {}, rails), {{"GDR_NCCL_RAIL_MAP", by_option(map)}}));
  EXPECT_THAT(with_map, HasSubstr("# GDR_NCCL_RAIL_MAP cannot be set: veth0 is no RDMA device"));
  EXPECT_THAT(with_map, Not(HasSubstr("export GDR_NCCL_RAIL_MAP")));
}

TEST(EnvLines, NoRailIsAnRdmaDevice_HasOnlyAComment) {
  Machine machine = two_sockets_with_switches();
  machine.nccl_file = true;
  for (topology::Hca& hca : machine.hcas) {
    make_interface(("veth" + hca.name.substr(5)).c_str(), &hca);
  }
  const std::string text = lines_on(machine);
  EXPECT_THAT(commands_in(text), IsEmpty());
  EXPECT_THAT(text, HasSubstr("# No rail is an RDMA device, so that no setting helps"));
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
                              scene_of(topology::with_nvlink()),
                              {{"NCCL_IB_HCA", {UserSetting::From::kEnvironment, "mlx5_0,mlx5_1"}}},
                              "NCCL_IB_HCA=mlx5_0,mlx5_1",
                              {"NCCL_IB_HCA"}};
  const std::string text = lines_of(inspection);
  EXPECT_THAT(text, HasSubstr("unset NCCL_IB_HCA\n"));
  EXPECT_THAT(text, Not(HasSubstr("GDR_NCCL_RAIL_MAP\n")));
  EXPECT_THAT(text, HasSubstr("# Left out: mlx5_2:1, mlx5_3:1."));
}

TEST(EnvLines, PortUnusableForAnotherReason_IsNotTakenForAList) {
  Machine machine = topology::with_nvlink();
  machine.hcas.resize(2);
  const std::string text = lines_of(Inspection{
      .decision = scene_of(machine),
      .not_offered = {"efa_0:1 is an Elastic Fabric Adapter"},
      .unrestricted = scene_of(topology::with_nvlink()),
      .settings = {{"GDR_NCCL_RAIL_MAP", {UserSetting::From::kEnvironment, "GPU0=mlx5_1"}}},
      .restricted_by = "GDR_NCCL_RAIL_MAP=GPU0=mlx5_1",
      .restricting = {"GDR_NCCL_RAIL_MAP"}});
  EXPECT_THAT(text, StartsWith("# GDR_NCCL_RAIL_MAP=GPU0=mlx5_1: this gives GPU"));
  EXPECT_THAT(text, HasSubstr("unset GDR_NCCL_RAIL_MAP\n"));
  EXPECT_THAT(text, Not(HasSubstr("NCCL_IB_HCA\n")));
}

TEST(EnvLines, WorseRailsByAMapOfTheEnvironmentAndAListOfAFile_AreTakenBackEach) {
  Machine machine = topology::with_nvlink();
  machine.hcas.resize(2);
  const UserSettings set = {
      {"GDR_NCCL_RAIL_MAP", {UserSetting::From::kEnvironment, "GPU0=mlx5_1"}},
      {"NCCL_IB_HCA", {UserSetting::From::kFile, "mlx5_0,mlx5_1", "nccl.conf", 1}}};
  const Inspection inspection{scene_of(machine),
                              {"mlx5_2:1 is excluded by NCCL_IB_HCA"},
                              0,
                              "",
                              scene_of(topology::with_nvlink()),
                              set,
                              "",
                              {"NCCL_IB_HCA", "GDR_NCCL_RAIL_MAP"}};
  const std::string text = lines_of(inspection);
  EXPECT_THAT(text, HasSubstr("unset GDR_NCCL_RAIL_MAP\n"));
  EXPECT_THAT(text, HasSubstr("export NCCL_IB_HCA=''\n"));
  EXPECT_THAT(text, HasSubstr("# Line 1 of nccl.conf sets NCCL_IB_HCA"));
}

TEST(EnvLines, NoHcaWithAName_IsAnErrorWithAdvice) {
  Machine machine = two_sockets_with_switches();
  for (topology::Hca& hca : machine.hcas) hca.named = false;
  const Result<std::string> lines = env_lines(inspection_of(scene_of(machine)));
  ASSERT_FALSE(lines.has_value());
  EXPECT_EQ(lines.error().code, Code::kInvalidUsage);
  EXPECT_THAT(lines.error().text, HasSubstr("mlx5_0, mlx5_1, mlx5_2 and 2 more"));
  EXPECT_THAT(lines.error().text, HasSubstr("Fix: run this on the machine"));
}

TEST(EnvLines, SomeRailsWithoutANameInTheSource_AreACommentAndTheRestIsPrinted) {
  Machine machine = two_sockets_with_switches();
  machine.hcas[4].named = false;  // excluded: no line has its name
  EXPECT_THAT(lines_on(machine), HasSubstr("export NCCL_IB_HCA='=mlx5_0:1,"));
  machine.hcas[1].named = false;
  topology::nccl::Settings settings;
  settings.gdr_level = PathClass::kLoc;
  const UserSettings set = {{"GDR_NCCL_RAIL_MAP", by_option("GPU0=mlx5_1")}};
  const std::string text = lines_on(machine, settings, set);
  EXPECT_THAT(text, HasSubstr("# NCCL_IB_HCA cannot be set: the source has no names of mlx5_1."));
  EXPECT_THAT(text, HasSubstr("# GDR_NCCL_RAIL_MAP cannot be set: "));
  EXPECT_THAT(commands_in(text), StartsWith("unset NCCL_NET_GDR_LEVEL\n"));
  EXPECT_THAT(commands_in(text), Not(HasSubstr("mlx5")));
}

TEST(EnvLines, NoRail_HasOnlyAComment) {
  EXPECT_THAT(commands_in(lines_on(flat(1, 0))), IsEmpty());
}

TEST(EnvLines, MoreRailsThanNcclsListTakes_GetAComment) {
  const UserSettings set = {{"NCCL_IB_HCA", by_option("mlx5")}};
  EXPECT_THAT(lines_on(flat(1, 32), {}, set), HasSubstr("export NCCL_IB_HCA='="));
  const std::string text = lines_on(flat(1, 33), {}, set);
  EXPECT_THAT(text, HasSubstr("# NCCL_IB_HCA cannot name 33 rails: it takes 32 entries."));
  EXPECT_THAT(text, Not(HasSubstr("export NCCL_IB_HCA")));
}

}  // namespace
}  // namespace gdr::tools::topo
