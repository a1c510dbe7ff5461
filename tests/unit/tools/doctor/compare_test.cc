#include "tools/doctor/compare.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/tools/doctor/made_host.h"
#include "tools/doctor/fingerprint.h"
#include "tools/topo/inspect.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::ordered_json;

// The fingerprint of a machine with eight GPUs and four HCAs.
Json node_json(const std::string& name) {
  MadeHost made;
  made.write("/proc/sys/kernel/hostname", name + "\n");
  made.write("/proc/sys/kernel/osrelease", "6.8.0\n");
  made.write("/sys/module/nvidia/version", "570.133.20\n");
  for (int i = 0; i < 4; ++i) {
    made.write("/sys/class/infiniband/mlx5_" + std::to_string(i) + "/fw_ver", "28.41.1000\n");
  }
  topo::InspectOptions options;
  options.from = std::string(GDR_TOPOLOGIES) + "/nccl-hgx-4nic.xml";
  made.host.inspection = topo::inspect(options).value();
  return Json::parse(to_fingerprint(made.host));
}

Profile node_of(const Json& json) { return parse_fingerprint(json.dump()).value(); }

std::string error_of(const std::string& text) {
  const Result<Profile> node = parse_fingerprint(text);
  return node ? "" : node.error().text;
}

TEST(CompareFleet, SameNodes_AreAlike) {
  const Comparison result =
      compare_fleet({node_of(node_json("a")), node_of(node_json("b")), node_of(node_json("c"))});
  EXPECT_TRUE(result.deviations.empty()) << to_text(result);
  EXPECT_EQ(to_text(result), "3 nodes are alike\n");
  EXPECT_EQ(Json::parse(to_json(result))["alike"].size(), 3u);
}

TEST(CompareFleet, OneWithOtherDriverAndFirmware_IsNamed) {
  Json odd = node_json("odd");
  odd["software"]["NVIDIA driver"] = "550.54.14";
  for (Json& hca : odd["hcas"]) hca["firmware"] = "28.39.1002";
  const Comparison result =
      compare_fleet({node_of(odd), node_of(node_json("b")), node_of(node_json("c"))});
  EXPECT_TRUE(result.is_reference_right);
  EXPECT_THAT(result.alike, ElementsAre("b", "c"));
  EXPECT_EQ(to_text(result),
            "odd: NVIDIA driver: 550.54.14, expected 570.133.20\n"
            "odd: mlx5_0, mlx5_1, mlx5_2, mlx5_3: firmware: 28.39.1002, expected 28.41.1000\n"
            "1 of 3 nodes differs: odd\n");
  const Json json = Json::parse(to_json(result));
  EXPECT_EQ(json["different"][0]["node"], "odd");
  EXPECT_EQ(json["different"][0]["differences"].size(), 5u);
}

TEST(CompareFleet, OtherTopology_IsNamed) {
  Json odd = node_json("odd");
  odd["topology"]["hcas"][2]["ports"][0]["speed_mbps"] = 100000;
  odd["topology"]["gpus"][5]["link_width"] = 8;
  const std::string text =
      to_text(compare_fleet({node_of(node_json("b")), node_of(odd), node_of(node_json("c"))}));
  EXPECT_THAT(text, HasSubstr("odd: GPU5: PCIe link: 32 GT/s x8, expected 32 GT/s x16\n"));
  EXPECT_THAT(text, HasSubstr("mlx5_2: port 1 speed: 100 Gb/s, expected "));
}

TEST(CompareFleet, SettingOfOneNode_IsUnsetOnTheOthers) {
  Json odd = node_json("odd");
  odd["settings"]["NCCL_IB_TC"] = "106";
  EXPECT_THAT(
      to_text(compare_fleet({node_of(odd), node_of(node_json("b")), node_of(node_json("c"))})),
      StartsWith("odd: NCCL_IB_TC: 106, expected unset\n"));
}

TEST(CompareFleet, UnknownOnOneSide_IsNoDifference) {
  Json odd = node_json("odd");
  odd["software"]["NVIDIA driver"] = nullptr;
  odd["hcas"][0]["firmware"] = nullptr;
  EXPECT_TRUE(compare_fleet({node_of(odd), node_of(node_json("b"))}).deviations.empty());
}

TEST(CompareFleet, NoTopologyOnOneSide_IsNoDifference) {
  Json without = node_json("without");
  without["topology"] = nullptr;
  EXPECT_TRUE(compare_fleet({node_of(without), node_of(node_json("b"))}).deviations.empty());
  EXPECT_TRUE(compare_fleet({node_of(node_json("b")), node_of(without)}).deviations.empty());
  Json odd = node_json("odd");
  odd["topology"]["gpus"][5]["link_width"] = 8;
  const Comparison result = compare_fleet(
      {node_of(without), node_of(odd), node_of(node_json("b")), node_of(node_json("c"))});
  ASSERT_EQ(result.deviations.size(), 1u) << to_text(result);
  EXPECT_EQ(result.deviations[0].node, "odd");
  Json more = node_json("more");
  more["topology"]["hcas"].push_back(more["topology"]["hcas"][0]);
  more["topology"]["hcas"].back()["name"] = "mlx5_77";
  EXPECT_TRUE(compare_fleet({node_of(without), node_of(more)}).deviations.empty());
  without["hcas"][0]["firmware"] = "28.39.1002";
  EXPECT_THAT(to_text(compare_fleet({node_of(without), node_of(node_json("b"))})),
              HasSubstr("mlx5_0: firmware"));
}

TEST(CompareFleet, LinksInUse_AreCompared) {
  Json odd = node_json("odd"), usual = node_json("b");
  usual["gpus"][5]["pcie_width"] = "x16";
  odd["gpus"][5]["pcie_width"] = "x8";
  usual["hcas"][1]["pcie_link"] = "32 GT/s x16";
  odd["hcas"][1]["pcie_link"] = "16 GT/s x16";
  Json third = usual;
  third["host"] = "c";
  const std::string text = to_text(compare_fleet({node_of(odd), node_of(usual), node_of(third)}));
  EXPECT_THAT(text, HasSubstr("odd: GPU5: PCIe lanes in use: x8, expected x16\n"));
  EXPECT_THAT(text, HasSubstr("odd: mlx5_1: PCIe link in use: 16 GT/s x16, expected 32 GT/s x16"));
}

TEST(CompareFleet, TwoThatDiffer_HaveNoMajority) {
  Json other = node_json("b");
  other["software"]["kernel"] = "6.9.0";
  const Comparison result = compare_fleet({node_of(node_json("a")), node_of(other)});
  EXPECT_FALSE(result.is_reference_right);
  EXPECT_THAT(to_text(result), StartsWith("b: kernel: 6.9.0 in b, 6.8.0 in a\n"));
  EXPECT_THAT(to_text(result), HasSubstr("the right kind is unknown"));
}

TEST(CompareFleet, LargestGroup_IsTheMajority) {
  std::vector<Profile> nodes;
  for (const char* kernel : {"1", "2", "3", "2"}) {
    Json json = node_json(kernel);
    json["software"]["kernel"] = kernel;
    nodes.push_back(node_of(json));
  }
  const Comparison result = compare_fleet(nodes);
  EXPECT_TRUE(result.is_reference_right);
  EXPECT_EQ(result.deviations.size(), 2u);
  EXPECT_THAT(to_text(result), StartsWith("1: kernel: 1, expected 2\n3: kernel: 3, expected 2\n"));
}

TEST(CompareWithGood, Machine_IsLikeItOrEachDifferenceIsALine) {
  Profile good = node_of(node_json("good"));
  good.name = "good.json";
  EXPECT_EQ(to_text(compare_with_good(node_of(node_json("a")), good)), "a is like good.json\n");
  Json odd = node_json("odd");
  odd["software"]["kernel"] = "6.9.0";
  odd["topology"]["gpus"][5]["link_width"] = 8;
  const Comparison result = compare_with_good(node_of(odd), good);
  EXPECT_EQ(to_text(result),
            "odd: kernel: 6.9.0, expected 6.8.0\n"
            "odd: GPU5: PCIe link: 32 GT/s x8, expected 32 GT/s x16\n"
            "odd differs from good.json\n");
  const Json first = Json::parse(to_json(result))["different"][0]["differences"][0];
  EXPECT_EQ(
      first,
      Json({{"subject", ""}, {"property", "kernel"}, {"actual", "6.9.0"}, {"expected", "6.8.0"}}));
}

TEST(CompareWithGood, FileOfAMachineWithoutDevices_IsRefused) {
  const TempFolder folder;
  const std::string file = (folder.path() / "good.json").string();
  const auto error_for = [&](const Json& json) {
    std::ofstream(file) << json.dump();
    const Result<Profile> good = read_good(file);
    return good ? "" : good.error().text;
  };
  Json json = node_json("a");
  EXPECT_EQ(error_for(json), "");
  json["topology"]["gpus"] = Json::array();
  EXPECT_THAT(error_for(json), HasSubstr(file + ": it describes a machine without GPUs"));
  json = node_json("a");
  json["hcas"] = json["topology"]["hcas"] = Json::array();
  EXPECT_THAT(error_for(json), HasSubstr("a machine without HCAs"));
}

TEST(ParseFingerprint, OtherTexts_AreErrorsThatSayWhat) {
  EXPECT_THAT(error_of(""), HasSubstr("it is not JSON"));
  EXPECT_THAT(error_of("{"), HasSubstr("it is not JSON"));
  EXPECT_THAT(error_of("[]"), HasSubstr("it is not a fingerprint"));
  EXPECT_THAT(error_of("{\"format\": \"nccl-gdr-doctor\", \"version\": 1}"),
              HasSubstr("it is not a fingerprint. Fix: "));
  EXPECT_THAT(error_of("{\"format\": \"nccl-gdr-fingerprint\", \"version\": 9}"),
              HasSubstr("it has version 9, and this program reads 1"));
  EXPECT_THAT(error_of("{\"format\": \"nccl-gdr-fingerprint\", \"version\": 1, \"topology\": {}}"),
              HasSubstr("in its topology: "));
  const std::string brackets(200000, '['), closing(200000, ']');
  EXPECT_THAT(error_of(brackets + closing), HasSubstr("nested too deeply"));
  std::string deep = node_json("a").dump(), quoted = deep;
  EXPECT_THAT(error_of(deep.insert(1, "\"new\": " + brackets + closing + ",")),
              HasSubstr("nested too deeply"));
  EXPECT_EQ(error_of(quoted.insert(1, "\"new\": \"\\\"" + brackets + "\",")), "");
}

// Values of other types than this program writes are unknown, and no reason to end.
TEST(ParseFingerprint, OddValues_AreUnknown) {
  Json odd = node_json("odd");
  odd["software"]["kernel"] = 7;
  odd["settings"]["NCCL_DEBUG"] = 7;
  odd["hcas"] = Json::array({1, nullptr, Json::object(), {{"name", 5}}});
  EXPECT_EQ(error_of(odd.dump()), "");
  odd["hcas"] = odd["software"] = nullptr;
  odd["host"] = 3;
  EXPECT_EQ(error_of(odd.dump()), "");
}

TEST(ParseFingerprint, PartsOfAnotherType_AreErrors) {
  const std::pair<const char*, const char*> parts[] = {
      {"gpus", "array"}, {"hcas", "array"}, {"software", "object"}, {"settings", "object"}};
  for (const auto& [part, type] : parts) {
    Json odd = node_json("odd");
    odd[part] = 3;
    EXPECT_EQ(error_of(odd.dump()), fmt::format("its \"{}\" is no {}", part, type));
  }
}

}  // namespace
}  // namespace gdr::tools::doctor
