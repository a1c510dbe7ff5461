#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/topology/machines.h"
#include "tools/topo/labels.h"
#include "tools/topo/render.h"

namespace gdr::tools::topo {
namespace {

using topology::flat;
using topology::scene_of;
using topology::two_sockets_with_switches;
using topology::with_nvlink;

using Json = nlohmann::ordered_json;

Json parsed(const RailDecision& scene) { return Json::parse(json_text(scene)); }

TEST(TopologyJson, Machine_HasPackagesSwitchesAndDevices) {
  Json root = parsed(scene_of(two_sockets_with_switches()));
  EXPECT_EQ(root["source"], "made by hand");
  EXPECT_EQ(root["cpu"]["vendor"], "GenuineIntel");
  EXPECT_EQ(root["packages"].size(), 2u);
  EXPECT_EQ(root["numa_nodes"][1]["cpus"], "16-47");
  EXPECT_EQ(root["host_bridges"][3], "0000:70");
  EXPECT_EQ(root["switches"][0]["address"], "0000:11:00.0");
  EXPECT_EQ(root["switches"][0]["switch"], nullptr);
  EXPECT_EQ(root["gpus"].size(), 8u);
  EXPECT_EQ(root["gpus"][0]["switch"], "0000:11:00.0");
  EXPECT_EQ(root["gpus"][0]["class"], "0x030200");
  EXPECT_EQ(root["hcas"][4]["ports"][1]["state"], "down");
  EXPECT_EQ(root["hcas"][4]["ports"][1]["speed_mbps"], 25000);
}

TEST(TopologyJson, Paths_AreMatricesOfClassesAndOfWords) {
  Json paths = parsed(scene_of(with_nvlink()))["paths"];
  EXPECT_EQ(paths["gpu_hca"]["class"].size(), 8u);
  EXPECT_EQ(paths["gpu_hca"]["class"][0].size(), 5u);
  EXPECT_EQ(paths["gpu_hca"]["class"][0][1], "PHB");
  EXPECT_EQ(paths["gpu_hca"]["display"][0][1], "NODE");
  EXPECT_EQ(paths["gpu_gpu"]["class"][0][1], "NVL");
  EXPECT_EQ(paths["gpu_gpu"]["display"][0][1], "NV18");
  EXPECT_EQ(paths["gpu_gpu"]["class"][3][3], "LOC");
  EXPECT_EQ(paths["hca_hca"]["display"][2][3], "NODE");
}

TEST(TopologyJson, Rails_NameTheirPortsAndGpus) {
  Json root = parsed(scene_of(two_sockets_with_switches()));
  ASSERT_EQ(root["rails"].size(), 4u);
  EXPECT_EQ(root["rails"][1]["rail"], 1);
  EXPECT_EQ(root["rails"][1]["port"], "mlx5_1:1");
  EXPECT_EQ(root["rails"][1]["gpus"], Json({2, 3}));
  EXPECT_EQ(root["rails"][1]["why_not"], nullptr);
  EXPECT_EQ(root["excluded_ports"][0]["port"], "mlx5_4:1");
  EXPECT_FALSE(root["excluded_ports"][0]["reason"].get<std::string>().empty());
}

TEST(TopologyJson, GpusRails_HaveVerdictsForBothDirections) {
  topology::nccl::Settings settings;
  settings.gdr_read = 0;
  Json rail = parsed(scene_of(two_sockets_with_switches(), settings))["gpus"][7]["rails"][0];
  EXPECT_EQ(rail["rail"], 3);
  EXPECT_EQ(rail["path"], "PIX");
  EXPECT_EQ(rail["expected_share"], "95-98 %");
  EXPECT_EQ(rail["receive"]["direct"], true);
  EXPECT_EQ(rail["send"]["direct"], false);
  EXPECT_EQ(rail["send"]["reason"], "NCCL_NET_GDR_READ=0");
}

TEST(TopologyJson, Level_IsNullWhereItIsUnset) {
  EXPECT_EQ(parsed(scene_of(flat(1, 1)))["nccl"]["level"], nullptr);
  topology::nccl::Settings settings;
  settings.gdr_level = PathClass::kSys;
  EXPECT_EQ(parsed(scene_of(flat(1, 1), settings))["nccl"]["level"], "SYS");
}

TEST(TopologyJson, UnknownValue_IsNull) {
  Machine machine = flat(1, 1);
  machine.hcas[0].bdf.reset();
  machine.hcas[0].link = {};
  machine.hcas[0].ports[0].speed_mbps = 0;
  Json hca = parsed(scene_of(machine))["hcas"][0];
  for (const char* key : {"address", "switch", "host_bridge", "link_gt_per_s", "link_width", "guid",
                          "gpudirect", "physical_function"}) {
    EXPECT_EQ(hca.at(key), nullptr) << key;
  }
  EXPECT_EQ(hca["ports"][0]["speed_mbps"], nullptr);
}

TEST(TopologyJson, NoDevices_IsEmptyArrays) {
  Json root = parsed(scene_of(Machine{}));
  for (const char* key : {"packages", "numa_nodes", "host_bridges", "switches", "gpus", "hcas",
                          "rails", "excluded_ports", "not_offered"}) {
    EXPECT_EQ(root.at(key), Json::array()) << key;
  }
  EXPECT_EQ(root["paths"]["gpu_hca"]["class"], Json::array());
}

TEST(TopologyJson, PortsThatAreNotOffered_AreTexts) {
  Json root = Json::parse(json_text(scene_of(flat(1, 1)), {"iw_0:1 is an iWARP device"}));
  EXPECT_EQ(root["not_offered"], Json::array({"iw_0:1 is an iWARP device"}));
}

TEST(TopologyJson, NameThatIsNotUtf8_IsValidJson) {
  Machine machine = flat(1, 1);
  machine.hcas[0].name = "mlx5\xff\"\n";
  EXPECT_EQ(parsed(scene_of(machine))["hcas"][0]["name"], "mlx5\ufffd\"\n");
}

}  // namespace
}  // namespace gdr::tools::topo
