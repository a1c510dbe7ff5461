#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "tests/unit/topology/machines.h"
#include "tools/inspection/labels.h"
#include "tools/topo/render.h"

namespace gdr::tools::topo {
namespace {

using topology::flat;
using topology::scene_of;
using topology::two_sockets_with_switches;
using topology::with_nvlink;

using Json = nlohmann::ordered_json;
using Values = std::vector<std::pair<const char*, Json>>;  // by JSON pointer (RFC 6901)

Json parsed_json(const RailDecision& scene) { return Json::parse(json_text(scene)); }

// Expects these values, which have to be there also where they are null.
void expect_values(const RailDecision& scene, const Values& values) {
  const Json root = parsed_json(scene);
  for (const auto& [pointer, value] : values) {
    const Json::json_pointer at(pointer);
    ASSERT_TRUE(root.contains(at)) << pointer;
    EXPECT_EQ(root[at], value) << pointer;
  }
}

topology::nccl::Settings without_reads() {
  topology::nccl::Settings settings;
  settings.gdr_read = 0;
  return settings;
}

TEST(TopologyJson, Machine_HasPackagesSwitchesDevicesAndRails) {
  const RailDecision scene = scene_of(two_sockets_with_switches());
  expect_values(scene, {{"/source", "made by hand"},
                        {"/cpu/vendor", "GenuineIntel"},
                        {"/packages/1/id", 1},
                        {"/numa_nodes/1/cpus", "16-47"},
                        {"/host_bridges/3", "0000:70"},
                        {"/switches/0/address", "0000:11:00.0"},
                        {"/switches/0/switch", nullptr},
                        {"/gpus/7/index", 7},
                        {"/gpus/0/switch", "0000:11:00.0"},
                        {"/gpus/0/class", "0x030200"},
                        {"/hcas/4/ports/1/state", "down"},
                        {"/hcas/4/ports/1/speed_mbps", 25000},
                        {"/rails/1/rail", 1},
                        {"/rails/1/port", "mlx5_1:1"},
                        {"/rails/1/gpus", {2, 3}},
                        {"/rails/1/why_not", nullptr},
                        {"/excluded_ports/0/port", "mlx5_4:1"},
                        {"/excluded_ports/0/reason", scene.plan.excluded[0].reason}});
}

TEST(TopologyJson, Paths_AreMatricesOfClassesAndOfWords) {
  expect_values(scene_of(with_nvlink()), {{"/paths/gpu_hca/class/7/4", "SYS"},
                                          {"/paths/gpu_hca/class/0/1", "PHB"},
                                          {"/paths/gpu_hca/display/0/1", "NODE"},
                                          {"/paths/gpu_gpu/class/0/1", "NVL"},
                                          {"/paths/gpu_gpu/display/0/1", "NV18"},
                                          {"/paths/gpu_gpu/class/3/3", "LOC"},
                                          {"/paths/hca_hca/display/2/3", "NODE"}});
}

TEST(TopologyJson, RailsOfGpusAndNccl_HaveVerdictsForBothDirections) {
  expect_values(scene_of(two_sockets_with_switches(), without_reads()),
                {{"/gpus/7/rails/0/rail", 3},
                 {"/gpus/7/rails/0/path", "PIX"},
                 {"/gpus/7/rails/0/display", "PIX"},
                 {"/gpus/7/rails/0/receive/direct", true},
                 {"/gpus/7/rails/0/send/direct", false},
                 {"/gpus/7/rails/0/send/reason", "NCCL_NET_GDR_READ=0"},
                 {"/nccl/release", topology::nccl::kNewestRelease.to_string()},
                 {"/nccl/settings/gdr_level", nullptr},
                 {"/nccl/settings/gdr_read", 0},
                 {"/nccl/failure", nullptr},
                 {"/nccl/devices/2/port", "mlx5_2:1"},
                 {"/nccl/devices/3/rail", 3},
                 {"/nccl/gpus/7/devices", Json::array({3})},
                 {"/nccl/gpus/7/to_devices/3/device", 3},
                 {"/nccl/gpus/7/to_devices/3/receive/path", "PIX"},
                 {"/nccl/gpus/7/to_devices/3/receive/distance", "PIX"},
                 {"/nccl/gpus/7/to_devices/3/receive/direct", true},
                 {"/nccl/gpus/7/to_devices/3/send/direct", false},
                 {"/nccl/gpus/7/to_devices/3/send/too_far", false},
                 {"/nccl/gpus/7/to_devices/3/send/reason", "NCCL_NET_GDR_READ=0"},
                 {"/nccl/gpus/0/to_devices/3/receive/too_far", true}});
  topology::nccl::Settings settings;
  settings.gdr_level = PathClass::kSys;
  expect_values(scene_of(flat(1, 1), settings), {{"/nccl/settings/gdr_level", "SYS"}});
}

// Expects null for each key of an object, which has to be there.
void expect_null(const RailDecision& scene, const std::string& object,
                 const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    expect_values(scene, {{(object + "/" + key).c_str(), nullptr}});
  }
}

TEST(TopologyJson, UnknownValues_AreNull) {
  Machine machine = flat(1, 1);
  machine.hcas[0].bdf.reset();
  machine.hcas[0].link = {};
  machine.hcas[0].ids = {};
  machine.hcas[0].class_code = 0;
  machine.hcas[0].ports[0] = Port{};
  machine.gpus[0].model = "";
  machine.gpus[0].ids = {};
  machine.gpus[0].compute_capability = 0;
  const RailDecision scene = scene_of(machine);
  expect_null(scene, "/hcas/0",
              {"address", "switch", "host_bridge", "class", "vendor", "device", "subsystem_vendor",
               "subsystem_device", "link_gt_per_s", "link_width", "guid", "gpudirect",
               "physical_function"});
  expect_null(scene, "/hcas/0/ports/0", {"state", "speed_mbps", "link_layer"});
  expect_null(scene, "/gpus/0",
              {"partition", "model", "vendor", "device", "compute_capability", "gpudirect",
               "nvlinks", "c2c_links", "c2c_mb_per_s"});
  expect_null(scene, "", {"host"});
  expect_null(scene, "/cpu", {"arch", "vendor", "family", "model"});
  expect_null(scene, "/numa_nodes/0", {"package", "cpu_mask", "cpus", "distances"});
}

TEST(TopologyJson, NvlinksThatTheSourceDoesNotState_MakeTheClassNull) {
  Machine machine = flat(2, 1);
  expect_values(scene_of(machine),
                {{"/paths/gpu_gpu/class", Json::array({{"LOC", nullptr}, {nullptr, "LOC"}})}});
  machine.gpu_links_known = true;
  expect_values(scene_of(machine),
                {{"/paths/gpu_gpu/class", Json::array({{"LOC", "PHB"}, {"PHB", "LOC"}})},
                 {"/gpus/0/nvlinks", Json::array()},
                 {"/gpus/0/c2c_links", 0}});
}

TEST(TopologyJson, FindingsAndPortsThatAreNotOffered_HaveTheirParts) {
  RailDecision scene = scene_of(flat(1, 1));
  scene.findings = {{FindingKind::kAcs, Severity::kWarning, "GPU0", "it is slow", ""}};
  const Json root = Json::parse(
      json_text(scene, {{FindingKind::kHcaUnsupported, "iw_0:1", "is an iWARP device"}}));
  EXPECT_EQ(root["findings"], Json::array({{{"kind", "acs"},
                                            {"severity", "warning"},
                                            {"subject", "GPU0"},
                                            {"text", "it is slow"},
                                            {"fix", nullptr}}}));
  EXPECT_EQ(
      root["not_offered"],
      Json::array(
          {{{"kind", "hca-unsupported"}, {"port", "iw_0:1"}, {"reason", "is an iWARP device"}}}));
}

TEST(TopologyJson, NoDevices_IsEmptyArraysAndUnknownSockets) {
  const Json none = Json::array();
  expect_values(scene_of(Machine{}), {{"/numa_nodes", none},
                                      {"/switches", none},
                                      {"/gpus", none},
                                      {"/hcas", none},
                                      {"/rails", none},
                                      {"/excluded_ports", none},
                                      {"/not_offered", none},
                                      {"/packages", nullptr},
                                      {"/host_bridges", nullptr},
                                      {"/paths/gpu_hca/class", none}});
}

TEST(TopologyJson, NameThatIsNotUtf8_IsValidJson) {
  Machine machine = flat(1, 1);
  machine.hcas[0].name = "mlx5\xff\"\n";
  expect_values(scene_of(machine), {{"/hcas/0/name", "mlx5\ufffd\"\n"}});
}

}  // namespace
}  // namespace gdr::tools::topo
