#include "tools/doctor/job_settings.h"

#include <gmock/gmock.h>

#include <sstream>

#include "tests/unit/topology/machines.h"
#include "tools/inspection/inspect.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using topology::flat;
using topology::Machine;
using topology::scene_of;
using topology::two_sockets_with_switches;

std::string settings_of(topology::PredictedRails decision) {
  return job_settings({.decision = std::move(decision)});
}

std::string settings_on(Machine machine) { return settings_of(scene_of(std::move(machine))); }

// One GPU and one HCA below one switch.
Machine near() {
  Machine machine = two_sockets_with_switches();
  machine.gpus.resize(1);
  machine.hcas.resize(1);
  return machine;
}

TEST(JobSettings, RightDefaults_NeedNone) {
  EXPECT_EQ(settings_on(near()), "");
  EXPECT_EQ(settings_on(flat(1, 0)), "");  // no rail that a setting could be about
  EXPECT_EQ(job_settings({.decision = scene_of(near())}, /*has_fault=*/true), "");
}

TEST(JobSettings, ExcludedPorts_AreKeptOffByAListOfTheRails) {
  EXPECT_EQ(settings_on(two_sockets_with_switches()),
            "# The rails in their order. This keeps NCCL off mlx5_4:1, mlx5_4:2, also without this "
            "plugin.\nexport NCCL_IB_HCA='=mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1'\n");
}

TEST(JobSettings, NumbersOfRailsThatTheUserGave_AreInTheList) {
  topology::RailOptions named;
  named.named = {{"mlx5_0", 1, 7}, {"mlx5_1", 1, 0}};
  EXPECT_THAT(settings_of(scene_of(two_sockets_with_switches(), {}, named)),
              HasSubstr("export NCCL_IB_HCA='=mlx5_1:1:0,mlx5_2:1:1,mlx5_3:1:2,mlx5_0:1:7'\n"));
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

TEST(JobSettings, RailWithoutANameInTheSource_IsACommentInPlaceOfTheList) {
  Machine machine = two_sockets_with_switches();
  machine.hcas[4].named = false;  // excluded: no line has its name
  EXPECT_THAT(settings_on(machine), HasSubstr("export NCCL_IB_HCA='=mlx5_0:1,"));
  machine.hcas[1].named = false;
  EXPECT_EQ(settings_on(machine),
            "# NCCL_IB_HCA cannot be set: the source has no names of HCAs.\n");
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
