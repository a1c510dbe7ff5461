#include "tools/doctor/job_settings.h"

#include <gmock/gmock.h>

#include <sstream>

#include "tests/unit/topology/machines.h"
#include "tools/inspection/inspect.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using topo::Inspection;
using topo::UserSetting;
using topo::UserSettings;
using topology::flat;
using topology::lopsided;
using topology::Machine;
using topology::PathClass;
using topology::PredictedRails;
using topology::scene_of;
using topology::two_sockets_with_switches;

std::string settings_of(PredictedRails decision, UserSettings set = {}) {
  return job_settings({.decision = std::move(decision), .settings = std::move(set)});
}

std::string settings_on(Machine machine, const topology::nccl::Settings& settings = {}) {
  return settings_of(scene_of(std::move(machine), settings));
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

topology::nccl::Settings with_level(PathClass level) {
  topology::nccl::Settings settings;
  settings.gdr_level = level;
  return settings;
}

TEST(JobSettings, RightDefaults_NeedNone) {
  EXPECT_EQ(settings_on(near()), "");
  EXPECT_EQ(settings_on(flat(1, 0)), "");  // no rail that a setting could be about
}

TEST(JobSettings, PolicyMax1ThatLeavesRailsIdle_GetsTheDefaultAndIsNeverAdvised) {
  Machine machine = near();
  for (int i = 1; i < 4; ++i) {
    machine.hcas.push_back(machine.hcas[0]);
    machine.hcas.back().name = "mlx5_" + std::to_string(i);
    machine.hcas.back().bdf = topology::bdf_of(0x60 + i);
  }
  EXPECT_EQ(settings_on(machine), "");
  topology::nccl::Settings settings;
  settings.net_devices = {topology::nccl::NetDevicesPolicy::Kind::kMax, 1};
  const std::string text = settings_on(machine, settings);
  EXPECT_EQ(commands_in(text), "export NCCL_NETDEVS_POLICY='AUTO'\n");
  EXPECT_THAT(text, HasSubstr("# So that it follows the rails, set NCCL_NETDEVS_POLICY=AUTO"));
}

TEST(JobSettings, ExcludedPorts_AreKeptOffByAListOfTheRails) {
  const std::string text = settings_on(two_sockets_with_switches());
  EXPECT_EQ(commands_in(text), "export NCCL_IB_HCA='=mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1'\n");
  EXPECT_THAT(text,
              HasSubstr("# The rails in their order. This keeps NCCL off mlx5_4:1, mlx5_4:2"));
}

TEST(JobSettings, NumbersOfRailsThatTheUserGave_AreInTheList) {
  topology::RailOptions named;
  named.named = {{"mlx5_0", 1, 7}, {"mlx5_1", 1, 0}};
  EXPECT_THAT(settings_of(scene_of(two_sockets_with_switches(), {}, named)),
              HasSubstr("export NCCL_IB_HCA='=mlx5_1:1:0,mlx5_2:1:1,mlx5_3:1:2,mlx5_0:1:7'\n"));
}

TEST(JobSettings, Level_IsRaisedOrTakenBackWhereThatHelps) {
  Machine far = lopsided();  // the rail is on another socket
  far.gpus.erase(far.gpus.begin());
  const std::tuple<Machine, topology::nccl::Settings, const char*> cases[] = {
      {flat(1, 1), {}, "export NCCL_NET_GDR_LEVEL='PHB'\n"},
      {far, {}, ""},
      {near(), with_level(PathClass::kLoc), "unset NCCL_NET_GDR_LEVEL\n"},
      {near(), with_level(PathClass::kSys), ""}};
  for (const auto& [machine, settings, expected] : cases) {
    EXPECT_EQ(commands_in(settings_on(machine, settings)), expected);
  }
}

TEST(JobSettings, Level_NamesOnlyGpusThatGain) {
  Machine machine = lopsided();
  machine.gpus.push_back(
      topology::make_gpu(topology::bdf_of(0x20), topology::Attachment{-1, 0, -1}));
  EXPECT_THAT(settings_on(machine), HasSubstr("just too far away: GPU1.\n"));
}

TEST(JobSettings, LevelOfNcclsFile_IsOverriddenSinceUnsetDoesNothing) {
  const UserSettings set = {
      {"NCCL_NET_GDR_LEVEL", {UserSetting::From::kFile, "LOC", "/etc/nccl.conf", 3}}};
  const std::string text = settings_of(scene_of(near(), with_level(PathClass::kLoc)), set);
  EXPECT_EQ(commands_in(text), "export NCCL_NET_GDR_LEVEL=''\n");
  EXPECT_THAT(text, HasSubstr("# Line 3 of /etc/nccl.conf sets NCCL_NET_GDR_LEVEL: remove it"));
}

// The switches of GPUs on C2C show no HCA, as on a GB200 tray.
TEST(JobSettings, ReleaseThatDoesNotUseC2cByItself_GetsTheSetting) {
  Machine machine = flat(1, 1);
  machine.cpu.arch = "arm64";
  machine.gpus[0].c2c_links = 10;
  machine.gpus[0].c2c_mb_per_s = 44712;
  topology::nccl::Settings settings;
  settings.release = topology::nccl::Release::parse("2.26.5").value();
  EXPECT_EQ(commands_in(settings_on(machine, settings)), "export NCCL_NET_GDR_C2C='1'\n");
}

TEST(JobSettings, MapThatNcclWouldNotFollow_GetsACommentAboutAFile) {
  const std::string map = "GPU0=mlx5_1;GPU1=mlx5_0";
  topology::RailOptions rails;
  rails.map = topology::RailMap::parse(map).value();
  const PredictedRails decision = scene_of(flat(2, 2), with_level(PathClass::kPhb), rails);
  const std::string text =
      settings_of(decision, {{"GDR_NCCL_RAIL_MAP", {UserSetting::From::kEnvironment, map}}});
  EXPECT_EQ(commands_in(text), "");
  EXPECT_THAT(text, HasSubstr("# NCCL would use GPU0 mlx5_"));
  EXPECT_THAT(text,
              HasSubstr("set NCCL_TOPO_FILE to what `nccl-gdr topo --nccl-xml --grouped` prints"));
}

TEST(JobSettings, NameWithALineBreak_StaysInItsQuotes) {
  Machine machine = two_sockets_with_switches();
  machine.hcas[0].name = "a\nrm -rf b";
  machine.hcas[4].name = "c\nexport D=1";
  std::istringstream lines(settings_on(machine));
  for (std::string line; std::getline(lines, line);) {
    EXPECT_THAT(line, AnyOf(StartsWith("#"), StartsWith("export NCCL_IB_HCA='=")));
  }
}

// NCCL's files list network interfaces that it uses by sockets.
TEST(JobSettings, NetworkInterfaceWithoutRdma_IsNotInTheList) {
  Machine machine = two_sockets_with_switches();
  machine.nccl_file = true;
  const auto make_interface = [](topology::Hca* hca) {
    hca->name = "veth" + hca->name.substr(5);
    hca->guid = 1;
    hca->gpudirect = false;
  };
  make_interface(&machine.hcas[0]);
  const std::string text = settings_on(machine);
  EXPECT_THAT(text, HasSubstr("export NCCL_IB_HCA='=mlx5_1:1,mlx5_2:1,mlx5_3:1'\n"));
  EXPECT_THAT(text, HasSubstr("This keeps NCCL off mlx5_4:1, mlx5_4:2"));
  for (size_t i = 1; i < machine.hcas.size(); ++i) make_interface(&machine.hcas[i]);
  EXPECT_EQ(settings_on(machine), "");
}

TEST(JobSettings, WorseRailsByTheUsersListOrMap_AreTakenBack) {
  using From = UserSetting::From;
  Machine machine = topology::with_nvlink();
  machine.hcas.resize(2);
  Inspection inspection{
      .decision = scene_of(machine),
      .unrestricted = scene_of(topology::with_nvlink()),
      .settings = {{"GDR_NCCL_RAIL_MAP", {From::kEnvironment, "GPU0=mlx5_1"}},
                   {"NCCL_IB_HCA", {From::kFile, "mlx5_0,mlx5_1", "nccl.conf", 1}}},
      .restricted_by = "GDR_NCCL_RAIL_MAP=GPU0=mlx5_1",
      .restricting = {"GDR_NCCL_RAIL_MAP"}};
  const std::string by_map = job_settings(inspection);
  EXPECT_THAT(by_map, StartsWith("# GPU"));
  EXPECT_THAT(by_map, HasSubstr(": GDR_NCCL_RAIL_MAP=GPU0=mlx5_1 leaves out mlx5_2:1, mlx5_3:1, so "
                                "that rails are farther away"));
  EXPECT_THAT(commands_in(by_map), StartsWith("unset GDR_NCCL_RAIL_MAP\n"));
  EXPECT_THAT(by_map, Not(HasSubstr("NCCL_IB_HCA=''")));
  inspection.restricting = {"NCCL_IB_HCA", "GDR_NCCL_RAIL_MAP"};
  const std::string by_both = job_settings(inspection);
  EXPECT_THAT(commands_in(by_both), StartsWith("export NCCL_IB_HCA=''\nunset GDR_NCCL_RAIL_MAP\n"));
  EXPECT_THAT(by_both, HasSubstr("# Line 1 of nccl.conf sets NCCL_IB_HCA"));
}

TEST(JobSettings, RailWithoutANameInTheSource_IsACommentInPlaceOfTheList) {
  Machine machine = two_sockets_with_switches();
  machine.hcas[4].named = false;  // excluded: no line has its name
  EXPECT_THAT(settings_on(machine), HasSubstr("export NCCL_IB_HCA='=mlx5_0:1,"));
  machine.hcas[1].named = false;
  const std::string text = settings_on(machine, with_level(PathClass::kLoc));
  EXPECT_THAT(text, HasSubstr("# NCCL_IB_HCA cannot be set: the source has no names of HCAs."));
  EXPECT_EQ(commands_in(text), "unset NCCL_NET_GDR_LEVEL\n");
}

TEST(JobSettings, MoreRailsThanNcclsListTakes_GetAComment) {
  for (const int rails : {32, 33}) {
    std::string map = "GPU0=mlx5_0";
    for (int i = 1; i < rails; ++i) map += ",mlx5_" + std::to_string(i);
    topology::RailOptions options;
    options.map = topology::RailMap::parse(map).value();
    EXPECT_THAT(settings_of(scene_of(flat(1, rails + 1), {}, options)),
                HasSubstr(rails == 32 ? "export NCCL_IB_HCA='="
                                      : "# NCCL_IB_HCA cannot name 33 rails: it takes 32"));
  }
}

}  // namespace
}  // namespace gdr::tools::doctor
