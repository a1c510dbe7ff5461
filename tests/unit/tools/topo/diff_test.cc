#include "tools/topo/diff.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "tests/unit/topology/machines.h"
#include "tools/topo/labels.h"
#include "tools/topo/render.h"

namespace gdr::tools::topo {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using topology::scene_of;
using topology::with_nvlink;
using Document = nlohmann::ordered_json;

const std::set<Aspect> kAll = {Aspect::kShape, Aspect::kNames, Aspect::kAddresses, Aspect::kGuids,
                               Aspect::kRelease};

Machine good() {
  Machine machine = with_nvlink();
  machine.gpu_links_known = true;
  return machine;
}

Document document_of(const Machine& machine, const topology::nccl::Settings& settings = {}) {
  return Document::parse(json_text(scene_of(machine, settings)));
}

// How the changed machine deviates from the good one.
std::vector<std::string> deviations(const std::function<void(Machine*)>& change,
                                    const std::set<Aspect>& aspects = kAll) {
  Machine changed = good();
  change(&changed);
  std::vector<std::string> texts;
  for (const Difference& one : compare_profiles(profile_of(document_of(changed)).value(),
                                                profile_of(document_of(good())).value(), aspects)) {
    texts.push_back(expecting_text(one));
  }
  return texts;
}

// To --check, these look like ports without a cable.
TEST(Diff, SecondPortsThatAreAllDown_DifferFromTheGoldenMachine) {
  auto with_second_ports = [](Port::State state) {
    Machine machine = good();
    for (size_t i = 0; i < 4; ++i) {
      Port second = machine.hcas[i].ports[0];
      second.number = 2;
      second.state = state;
      machine.hcas[i].ports.push_back(second);
    }
    return profile_of(document_of(machine)).value();
  };
  std::vector<std::string> texts;
  for (const Difference& one :
       grouped(compare_profiles(with_second_ports(Port::State::kDown),
                                with_second_ports(Port::State::kActive), {Aspect::kShape}))) {
    texts.push_back(expecting_text(one));
  }
  EXPECT_THAT(texts,
              Contains("mlx5_0, mlx5_1, mlx5_2, mlx5_3: port 2 state: down, expected active"));
}

TEST(Diff, CausesComeBeforeWhatFollows) {
  std::vector<std::string> texts = deviations([](Machine* machine) {
    machine->hcas.erase(machine->hcas.begin() + 1);
    machine->gpus[0].nvlinks = {NvLink{NvLink::To::kSwitch, {}, 15}};
  });
  ASSERT_GE(texts.size(), 3u);
  EXPECT_THAT(texts[0], HasSubstr(" is missing"));
  EXPECT_THAT(texts[1], HasSubstr("GPU0: NVLinks: "));
  EXPECT_THAT(texts.back(), HasSubstr("NCCL"));
}

TEST(Diff, LinksToOneKindOfTarget_NameItOnce) {
  EXPECT_EQ(expecting_text({Difference::Kind::kValue, "GPU3", "NVLinks", "15 to NVSwitches",
                            "18 to NVSwitches"}),
            "GPU3: NVLinks: 15, expected 18 (to NVSwitches)");
}

TEST(Diff, HcaThatTheUserExcludes_IsNotMissing) {
  EXPECT_EQ(expecting_text(
                {Difference::Kind::kOnlyInSecond, "mlx5_3", "excluded by NCCL_IB_HCA", {}, {}}),
            "mlx5_3 is excluded by NCCL_IB_HCA");
}

TEST(Diff, SameMachine_HasNoDifference) {
  EXPECT_THAT(deviations([](Machine*) {}), IsEmpty());
}

TEST(Diff, OrderOfKeysAndUnknownKeys_DoNotMatter) {
  const Document document = document_of(good());
  nlohmann::json sorted = nlohmann::json::parse(document.dump());
  sorted["new_key"] = 1;
  EXPECT_THAT(compare_profiles(profile_of(Document::parse(sorted.dump())).value(),
                               profile_of(document).value(), kAll),
              IsEmpty());
}

TEST(Diff, EachPropertyThatChanges_IsNamed) {
  const auto cases = std::vector<std::pair<std::function<void(Machine*)>, std::string>>{
      {[](Machine* m) { m->cpu.model = 85; }, "CPU: x86_64 GenuineIntel 6 85, expected "},
      {[](Machine* m) { m->gpus[2].model = "B200"; }, "GPU2: model: B200, expected "},
      {[](Machine* m) { m->gpus[2].compute_capability = 80; },
       "GPU2: compute capability: 80, expected 90"},
      {[](Machine* m) { m->gpus[2].ids.device = 0x2901; }, "GPU2: PCI device: 0x10de:0x2901, "},
      {[](Machine* m) { m->gpus[2].link.width = 8; }, "GPU2: PCIe link: 32 GT/s x8, expected "},
      {[](Machine* m) { m->gpus[2].nvlinks[0].count = 9; },
       "GPU2: NVLinks: 9, expected 18 (to NVSwitches)"},
      {[](Machine* m) { m->gpus[2].c2c_links = 3; }, "GPU2: NVLink-C2C links: 3, expected 0"},
      {[](Machine* m) { m->hcas[1].name = "ib7"; }, "ib7: name: ib7, expected mlx5_1"},
      {[](Machine* m) { m->hcas[1].guid = 5; }, "mlx5_1: GUID: 0x0000000000000005, expected "},
      {[](Machine* m) { m->hcas[1].bdf = topology::bdf_of(0x36); },
       "mlx5_1: address: 0000:36:00.0, expected 0000:34:00.0"},
      {[](Machine* m) { m->hcas[1].gpudirect = false; },
       "mlx5_1: GPUDirect support: no, expected unknown"},
      {[](Machine* m) { m->hcas[1].ports[0].speed_mbps = 200000; },
       "mlx5_1: port 1 speed: 200 Gb/s, expected 400 Gb/s"},
      {[](Machine* m) { m->hcas[1].ports[0].state = Port::State::kDown; },
       "mlx5_1: port 1 state: down, expected active"},
      {[](Machine* m) { m->hcas[1].ports[0].link_layer = Port::LinkLayer::kEthernet; },
       "mlx5_1: port 1 link layer: Ethernet, expected InfiniBand"}};
  for (const auto& [change, text] : cases) {
    EXPECT_THAT(deviations(change), Contains(HasSubstr(text))) << text;
  }
}

TEST(Diff, LinkOfASwitch_IsCompared) {
  auto slow = [](Machine* machine) { machine->switches[1].link = {8, 16}; };
  EXPECT_THAT(deviations(slow, {Aspect::kShape}),
              Contains(::testing::StartsWith("PCIe switch " + good().switches[1].bdf.to_string() +
                                             ": PCIe link: 8 GT/s x16, expected ")));
  auto moved = [](Machine* machine) {
    for (Switch& one : machine->switches) one.bdf.domain = 1;
  };
  EXPECT_THAT(deviations(moved, {Aspect::kShape}), IsEmpty());
  EXPECT_THAT(deviations(moved), Each(HasSubstr(": address: 0001:")));
}

TEST(Diff, MissingSwitch_IsNamedUnlessTheGoldenFileLeavesSwitchesOpen) {
  const Document golden = document_of(good());
  Document changed = golden, open = golden;
  const std::string address = changed["switches"][0]["address"];
  changed["switches"].erase(0);
  open["switches"] = nullptr;
  const Profile without = profile_of(changed).value();
  const auto found = compare_profiles(without, profile_of(golden).value(), {Aspect::kShape});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(expecting_text(found[0]), "PCIe switch " + address + " is missing");
  EXPECT_THAT(compare_profiles(without, profile_of(open).value(), {Aspect::kShape}), IsEmpty());
}

TEST(Diff, SourceWithoutPackages_LeavesThemUnknown) {
  auto forget = [](Machine* machine) {
    machine->packages.clear();
    for (auto& node : machine->numa_nodes) node.package = -1;
  };
  EXPECT_THAT(deviations(forget, {Aspect::kShape}),
              ElementsAre("number of packages: unknown, expected 2"));
  Machine vague = good();
  forget(&vague);
  EXPECT_TRUE(document_of(vague)["packages"].is_null());
  auto found = compare_profiles(profile_of(document_of(good())).value(),
                                profile_of(document_of(vague)).value(), {Aspect::kShape});
  drop_unknown_in_second(&found);
  EXPECT_THAT(found, IsEmpty());
}

TEST(Diff, DeviceThatMoves_ChangesItsPathsAndRails) {
  const std::vector<std::string> texts =
      deviations([](Machine* machine) { machine->hcas[1].at = machine->hcas[2].at; });
  EXPECT_THAT(texts, Contains(HasSubstr("mlx5_1: NUMA node: 1, expected 0")));
  EXPECT_THAT(texts, Contains(HasSubstr("mlx5_1: path to GPU0, GPU1, GPU2, GPU3, ")));
  EXPECT_THAT(texts, Contains(HasSubstr("GPU2: path to its rail: ")));
}

TEST(Diff, RemovedAndAddedDevices_AreNamedAndTheOthersStillCompared) {
  const std::vector<std::string> removed = deviations([](Machine* machine) {
    machine->gpus.erase(machine->gpus.begin() + 2);
    machine->gpus[6].model = "B200";
  });
  EXPECT_THAT(removed, Contains("GPU2 (0000:33:00.0) is missing"));
  EXPECT_THAT(removed, Contains(HasSubstr("GPU6: model: B200")));
  EXPECT_THAT(removed, ::testing::Not(Contains(HasSubstr("address"))));
  const std::vector<std::string> added = deviations([](Machine* machine) {
    machine->hcas.push_back(topology::make_hca("mlx5_9", topology::bdf_of(0xf0), {-1, 0, 0}));
  });
  EXPECT_THAT(added, Contains("mlx5_9 (0000:f0:00.0) is unexpected"));
}

TEST(Diff, AspectsLeftOut_AreNotCompared) {
  auto rename = [](Machine* machine) {
    for (Hca& hca : machine->hcas) hca.name = "ib" + hca.name;
    for (Hca& hca : machine->hcas) hca.guid += 7;
    for (Hca& hca : machine->hcas) hca.bdf->domain = 1;
    for (Gpu& gpu : machine->gpus) gpu.bdf.domain = 1;
  };
  EXPECT_THAT(deviations(rename, {Aspect::kShape}), IsEmpty());
  EXPECT_THAT(deviations(rename, {Aspect::kShape, Aspect::kNames}), ::testing::SizeIs(5));
  EXPECT_THAT(deviations(rename, {Aspect::kShape, Aspect::kGuids}), ::testing::SizeIs(5));
  EXPECT_THAT(deviations(rename, {Aspect::kShape, Aspect::kAddresses}), ::testing::SizeIs(13));
}

// Moves each device to the address of one below another switch.
void shift_buses(Machine* machine) {
  for (Gpu& gpu : machine->gpus) gpu.bdf.bus = static_cast<uint8_t>(gpu.bdf.bus + 0x20);
  for (Hca& hca : machine->hcas) hca.bdf->bus = static_cast<uint8_t>(hca.bdf->bus + 0x20);
}

TEST(Diff, OtherBusNumbers_AreOtherAddressesOnly) {
  EXPECT_THAT(deviations(shift_buses, {Aspect::kShape}), IsEmpty());
  const size_t devices = good().gpus.size() + good().hcas.size();
  EXPECT_THAT(deviations(shift_buses), ::testing::SizeIs(devices));
  EXPECT_THAT(deviations(shift_buses), Each(HasSubstr(": address: ")));
}

TEST(Diff, HcasNamedByTheirAddresses_BelongTogetherByOrderWhereBusNumbersDiffer) {
  auto name = [](Machine* machine, int first) {
    machine->hcas.resize(4);  // the fifth has the last bus numbers
    for (size_t i = 0; i < machine->hcas.size(); ++i) {
      machine->hcas[i].name = "ibp" + std::to_string(first + static_cast<int>(i)) + "s0";
    }
  };
  Machine golden = good(), shifted = good();
  name(&golden, 15);
  name(&shifted, 16);
  shift_buses(&shifted);
  std::vector<std::string> texts;
  for (const Difference& one :
       compare_profiles(profile_of(document_of(shifted)).value(),
                        profile_of(document_of(golden)).value(), {Aspect::kShape})) {
    texts.push_back(expecting_text(one));
  }
  EXPECT_THAT(texts, IsEmpty());
}

TEST(Diff, FaultOnAMachineWithOtherBusNumbers_IsTheOnlyDifference) {
  auto change = [](Machine* machine) {
    shift_buses(machine);
    machine->gpus[2].model = "B200";
  };
  EXPECT_THAT(deviations(change, {Aspect::kShape}),
              ElementsAre(HasSubstr("GPU2: model: B200, expected ")));
}

TEST(Diff, Release_IsAnAspectOfItsOwnAndSettingsBelongToTheShape) {
  topology::nccl::Settings settings;
  settings.release = {2, 28, 9};
  const Profile old = profile_of(document_of(good(), settings)).value();
  const Profile current = profile_of(document_of(good())).value();
  EXPECT_THAT(compare_profiles(old, current, {Aspect::kShape}), IsEmpty());
  const auto found = compare_profiles(old, current, kAll);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(comparing_text(found[0], "A", "B"), "NCCL's release: 2.28.9 in A, 2.30.7 in B");
  settings = {};
  settings.gdr_level = PathClass::kLoc;
  const Profile limited = profile_of(document_of(good(), settings)).value();
  const auto level = compare_profiles(limited, current, {Aspect::kShape});
  ASSERT_FALSE(level.empty());
  EXPECT_EQ(expecting_text(level[0]), "NCCL's gdr_level: LOC, expected unset");
}

TEST(Diff, NcclsChoice_IsCompared) {
  Document document = document_of(good());
  Document changed = document;
  changed["nccl"]["gpus"][2]["devices"] = Document::array({3});
  const auto found =
      compare_profiles(profile_of(changed).value(), profile_of(document).value(), {Aspect::kShape});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(expecting_text(found[0]), HasSubstr("GPU2: rails that NCCL uses: 3, expected "));
}

TEST(Diff, ValueUnknownInTheSecond_IsDroppedOnRequest) {
  Machine vague = good();
  vague.hcas[1].ports[0].speed_mbps = 0;
  const Profile unknown = profile_of(document_of(vague)).value();
  const Profile known = profile_of(document_of(good())).value();
  auto found = compare_profiles(known, unknown, {Aspect::kShape});
  EXPECT_EQ(found.size(), 1u);
  drop_unknown_in_second(&found);
  EXPECT_THAT(found, IsEmpty());
  found = compare_profiles(unknown, known, {Aspect::kShape});
  drop_unknown_in_second(&found);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(expecting_text(found[0]), "mlx5_1: port 1 speed: unknown, expected 400 Gb/s");
}

TEST(Diff, LikeDifferencesOfSeveralDevices_BecomeOne) {
  const auto kind = Difference::Kind::kValue;
  const std::vector<Difference> list = {{kind, "GPU0", "model", "A", "B"},
                                        {kind, "GPU1", "model", "A", "B"},
                                        {kind, "GPU2", "model", "A", "C"}};
  std::vector<std::string> texts;
  for (const Difference& one : grouped(list)) texts.push_back(expecting_text(one));
  EXPECT_THAT(texts, ElementsAre("GPU0, GPU1: model: A, expected B", "GPU2: model: A, expected C"));
}

TEST(Diff, GroupsOfMissingDevices_AreOfOneKindAndPlural) {
  using Device = Difference::Device;
  const auto missing = Difference::Kind::kOnlyInSecond;
  const std::vector<Difference> list = {{missing, "GPU0", "", {}, {}, Device::kGpu},
                                        {missing, "GPU1", "", {}, {}, Device::kGpu},
                                        {missing, "mlx5_0", "", {}, {}, Device::kHca}};
  std::vector<std::string> texts;
  for (const Difference& one : grouped(list)) texts.push_back(expecting_text(one));
  EXPECT_THAT(texts, ElementsAre("GPU0, GPU1 are missing", "mlx5_0 is missing"));
}

TEST(Profile, DocumentsOfAnotherKind_AreErrors) {
  for (const char* text : {"{}", "[]", "1", "null", "{\"schema_version\": 1, \"gpus\": []}",
                           "{\"schema_version\": \"1\", \"gpus\": [], \"hcas\": []}"}) {
    EXPECT_FALSE(profile_of(Document::parse(text))) << text;
  }
}

TEST(Profile, ValuesOfOtherTypes_AreUnknownOrTexts) {
  Document document = document_of(good());
  document["gpus"][0]["nvlinks"] = "many";
  document["gpus"][1] = 5;
  document["hcas"][0]["ports"] = 7;
  document["paths"] = nullptr;
  document["nccl"]["gpus"] = {{"a", 1}};
  document["rails"] = Document::array({1, nullptr, "x"});
  const Result<Profile> profile = profile_of(document);
  ASSERT_TRUE(profile);
  EXPECT_EQ(profile->gpus.size(), 8u);
  EXPECT_TRUE(profile->gpu_hca.empty());
}

TEST(Profile, NumbersThatAnIntCannotHold_AreUnknown) {
  Document document = document_of(good());
  for (const Document& number : {Document(1e300), Document(-1e300), Document(UINT64_MAX)}) {
    Document changed = document;
    changed["schema_version"] = number;
    EXPECT_FALSE(profile_of(changed)) << number;
    changed = document;
    changed["hcas"][0]["ports"][0]["speed_mbps"] = number;
    const std::vector<Property> properties = profile_of(changed).value().hcas[0].properties;
    const auto speed = std::find_if(properties.begin(), properties.end(),
                                    [](const auto& one) { return one.name == "port 1 speed"; });
    ASSERT_NE(speed, properties.end());
    EXPECT_EQ(speed->value, std::nullopt) << number;
  }
}

TEST(Profile, ValuesNestedDeeply_AreAnErrorAndBracketsInTextsAreNot) {
  auto text_with = [](const std::string& value) {
    std::string text = document_of(good()).dump();
    return text.insert(1, "\"new_key\": " + value + ",");
  };
  const std::string brackets(200000, '['), closing(200000, ']');
  const Result<std::vector<Profile>> deep = parse_profiles("f", text_with(brackets + closing));
  ASSERT_FALSE(deep);
  EXPECT_THAT(deep.error().text, HasSubstr("f: its values are nested in more than 64 levels"));
  EXPECT_TRUE(parse_profiles("f", text_with("\"\\\"" + brackets + "\"")));
  EXPECT_TRUE(parse_profiles("f", text_with(std::string(60, '[') + std::string(60, ']'))));
}

TEST(Profile, SeveralDocumentsInOneText_AreParsedOneAfterTheOther) {
  const std::string one = document_of(good()).dump();
  EXPECT_EQ(parse_profiles("f", one + "\n" + one + "\n").value().size(), 2u);
  const Result<std::vector<Profile>> bad = parse_profiles("f", one + "\n{");
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().text, HasSubstr("f: "));
  EXPECT_FALSE(parse_profiles("f", " \n"));
}

}  // namespace
}  // namespace gdr::tools::topo
