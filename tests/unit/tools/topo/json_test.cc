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

Json parsed_json(const RailDecision& scene) { return Json::parse(json_text(scene)); }

TEST(TopologyJson, Machine_HasPackagesSwitchesAndDevices) {
  Json root = parsed_json(scene_of(two_sockets_with_switches()));
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
  Json paths = parsed_json(scene_of(with_nvlink()))["paths"];
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
  Json root = parsed_json(scene_of(two_sockets_with_switches()));
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
  Json rail = parsed_json(scene_of(two_sockets_with_switches(), settings))["gpus"][7]["rails"][0];
  EXPECT_EQ(rail["rail"], 3);
  EXPECT_EQ(rail["path"], "PIX");
  EXPECT_EQ(rail["display"], "PIX");
  EXPECT_EQ(rail["receive"]["direct"], true);
  EXPECT_EQ(rail["send"]["direct"], false);
  EXPECT_EQ(rail["send"]["reason"], "NCCL_NET_GDR_READ=0");
}

TEST(TopologyJson, Level_IsNullWhereItIsUnset) {
  EXPECT_EQ(parsed_json(scene_of(flat(1, 1)))["nccl"]["settings"]["gdr_level"], nullptr);
  topology::nccl::Settings settings;
  settings.gdr_level = PathClass::kSys;
  EXPECT_EQ(parsed_json(scene_of(flat(1, 1), settings))["nccl"]["settings"]["gdr_level"], "SYS");
}

// Expects null for each key, which has to be there.
void expect_null(const Json& object, const std::vector<const char*>& keys) {
  for (const char* key : keys) {
    ASSERT_TRUE(object.contains(key)) << key;
    EXPECT_EQ(object[key], nullptr) << key;
  }
}

TEST(TopologyJson, UnknownValueOfAnHca_IsNull) {
  Machine machine = flat(1, 1);
  machine.hcas[0].bdf.reset();
  machine.hcas[0].link = {};
  machine.hcas[0].ids = {};
  machine.hcas[0].class_code = 0;
  machine.hcas[0].ports[0] = Port{};
  Json hca = parsed_json(scene_of(machine))["hcas"][0];
  expect_null(hca, {"address", "switch", "host_bridge", "class", "vendor", "device",
                    "subsystem_vendor", "subsystem_device", "link_gt_per_s", "link_width", "guid",
                    "gpudirect", "physical_function"});
  expect_null(hca["ports"][0], {"state", "speed_mbps", "link_layer"});
}

TEST(TopologyJson, UnknownValueOfAGpu_IsNull) {
  Machine machine = flat(1, 0);
  machine.gpus[0].model = "";
  machine.gpus[0].ids = {};
  machine.gpus[0].compute_capability = 0;
  Json gpu = parsed_json(scene_of(machine))["gpus"][0];
  expect_null(gpu, {"partition", "model", "vendor", "device", "compute_capability", "gpudirect",
                    "nvlinks", "c2c_links", "c2c_mb_per_s"});
}

TEST(TopologyJson, UnknownValueOfTheMachine_IsNull) {
  Json root = parsed_json(scene_of(flat(1, 1)));
  expect_null(root, {"host"});
  expect_null(root["cpu"], {"arch", "vendor", "family", "model"});
  expect_null(root["numa_nodes"][0], {"package", "cpu_mask", "cpus", "distances"});
}

TEST(TopologyJson, NvlinksThatTheSourceDoesNotState_MakeTheClassNull) {
  Machine machine = flat(2, 1);
  EXPECT_EQ(parsed_json(scene_of(machine))["paths"]["gpu_gpu"]["class"],
            Json::array({{"LOC", nullptr}, {nullptr, "LOC"}}));
  machine.gpu_links_known = true;
  Json root = parsed_json(scene_of(machine));
  EXPECT_EQ(root["paths"]["gpu_gpu"]["class"], Json::array({{"LOC", "PHB"}, {"PHB", "LOC"}}));
  EXPECT_EQ(root["gpus"][0]["nvlinks"], Json::array());
  EXPECT_EQ(root["gpus"][0]["c2c_links"], 0);
}

TEST(TopologyJson, Nccl_HasDevicesAndWhatEachGpuDoesWithThem) {
  topology::nccl::Settings settings;
  settings.gdr_read = 0;
  Json nccl = parsed_json(scene_of(two_sockets_with_switches(), settings))["nccl"];
  EXPECT_EQ(nccl["release"], settings.release.to_string());
  EXPECT_EQ(nccl["settings"]["gdr_read"], 0);
  EXPECT_EQ(nccl["failure"], nullptr);
  ASSERT_EQ(nccl["devices"].size(), 4u);
  EXPECT_EQ(nccl["devices"][2]["port"], "mlx5_2:1");
  EXPECT_EQ(nccl["devices"][2]["rail"], 2);
  ASSERT_EQ(nccl["gpus"].size(), 8u);
  EXPECT_EQ(nccl["gpus"][7]["devices"], Json::array({3}));
  Json pair = nccl["gpus"][7]["to_devices"][3];
  EXPECT_EQ(pair["device"], 3);
  EXPECT_EQ(pair["receive"]["path"], "PIX");
  EXPECT_EQ(pair["receive"]["distance"], "PIX");
  EXPECT_EQ(pair["receive"]["direct"], true);
  EXPECT_EQ(pair["send"]["direct"], false);
  EXPECT_EQ(pair["send"]["too_far"], false);
  EXPECT_EQ(pair["send"]["reason"], "NCCL_NET_GDR_READ=0");
  EXPECT_EQ(nccl["gpus"][0]["to_devices"][3]["receive"]["too_far"], true);
}

TEST(TopologyJson, Findings_HaveTheirParts) {
  RailDecision scene = scene_of(flat(1, 1));
  scene.findings = {{FindingKind::kAcs, Severity::kWarning, "GPU0", "it is slow", ""}};
  Json finding = parsed_json(scene)["findings"][0];
  EXPECT_EQ(finding["kind"], "acs");
  EXPECT_EQ(finding["severity"], "warning");
  EXPECT_EQ(finding["subject"], "GPU0");
  EXPECT_EQ(finding["text"], "it is slow");
  EXPECT_EQ(finding["fix"], nullptr);
}

TEST(TopologyJson, NoDevices_IsEmptyArraysAndUnknownSockets) {
  Json root = parsed_json(scene_of(Machine{}));
  for (const char* key :
       {"numa_nodes", "switches", "gpus", "hcas", "rails", "excluded_ports", "not_offered"}) {
    EXPECT_EQ(root.at(key), Json::array()) << key;
  }
  for (const char* key : {"packages", "host_bridges"}) EXPECT_TRUE(root.at(key).is_null()) << key;
  EXPECT_EQ(root["paths"]["gpu_hca"]["class"], Json::array());
}

TEST(TopologyJson, PortsThatAreNotOffered_HaveTheirKindAndReason) {
  Json root = Json::parse(json_text(
      scene_of(flat(1, 1)), {{FindingKind::kHcaUnsupported, "iw_0:1", "is an iWARP device"}}));
  EXPECT_EQ(
      root["not_offered"],
      Json::array(
          {{{"kind", "hca-unsupported"}, {"port", "iw_0:1"}, {"reason", "is an iWARP device"}}}));
}

TEST(TopologyJson, NameThatIsNotUtf8_IsValidJson) {
  Machine machine = flat(1, 1);
  machine.hcas[0].name = "mlx5\xff\"\n";
  EXPECT_EQ(parsed_json(scene_of(machine))["hcas"][0]["name"], "mlx5\ufffd\"\n");
}

}  // namespace
}  // namespace gdr::tools::topo
