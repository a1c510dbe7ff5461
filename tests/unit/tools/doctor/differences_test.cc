#include "tools/doctor/differences.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "tests/unit/topology/machines.h"
#include "tools/topo/labels.h"
#include "tools/topo/render.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using topology::Gpu;
using topology::Hca;
using topology::Machine;
using topology::Port;
using Document = nlohmann::ordered_json;
using Change = std::function<void(Machine*)>;

Machine good() {
  Machine machine = topology::with_nvlink();
  machine.gpu_links_known = true;
  return machine;
}

Document document_of(const Machine& machine) {
  return Document::parse(topo::json_text(topology::scene_of(machine, {})));
}

Profile profile_of(const Document& document) {
  Profile profile;
  const Status added = add_topology(document, &profile);
  EXPECT_TRUE(added) << added.error().text;
  return profile;
}

Profile changed_by(const Change& change) {
  Machine machine = good();
  change(&machine);
  return profile_of(document_of(machine));
}

// How the first deviates from the second.
std::vector<std::string> deviations(const Profile& first, const Profile& second) {
  std::vector<std::string> texts;
  for (const Difference& one : grouped(compare_profiles(first, second))) {
    texts.push_back(expecting_text(one));
  }
  return texts;
}

std::vector<std::string> deviations(const Change& change) {
  return deviations(changed_by(change), profile_of(document_of(good())));
}

TEST(Differences, SameMachine_HasNone) {
  EXPECT_THAT(deviations([](Machine*) {}), IsEmpty());
}

TEST(Differences, EachPropertyThatChanges_IsNamed) {
  const std::pair<Change, const char*> cases[] = {
      {[](Machine* m) { m->cpu.model = 85; }, "CPU: x86_64 GenuineIntel 6 85, expected "},
      {[](Machine* m) { m->gpus[2].model = "B200"; }, "GPU2: model: B200, expected "},
      {[](Machine* m) { m->gpus[2].compute_capability = 80; },
       "GPU2: compute capability: 80, expected 90"},
      {[](Machine* m) { m->gpus[2].ids.device = 0x2901; }, "GPU2: PCI device: 0x10de:0x2901, "},
      {[](Machine* m) { m->gpus[2].link.width = 8; }, "GPU2: PCIe link: 32 GT/s x8, expected "},
      {[](Machine* m) { m->gpus[2].nvlinks[0].count = 9; },
       "GPU2: NVLinks: 9, expected 18 (to NVSwitches)"},
      {[](Machine* m) { m->gpus[2].c2c_links = 3; }, "GPU2: NVLink-C2C links: 3, expected 0"},
      {[](Machine* m) { m->hcas[1].ports[0].speed_mbps = 200000; },
       "mlx5_1: port 1 speed: 200 Gb/s, expected 400 Gb/s"},
      {[](Machine* m) { m->hcas[1].ports[0].state = Port::State::kDown; },
       "mlx5_1: port 1 state: down, expected active"},
      {[](Machine* m) { m->hcas[1].ports[0].link_layer = Port::LinkLayer::kEthernet; },
       "mlx5_1: port 1 link layer: Ethernet, expected InfiniBand"},
      {[](Machine* m) { m->hcas[1].ports.push_back(m->hcas[1].ports[0]); },
       "mlx5_1: number of ports: 2, expected 1"},
      {[](Machine* m) { m->hcas[1].at = m->hcas[2].at; }, "mlx5_1: NUMA node: 1, expected 0"},
      {[](Machine* m) { m->hcas[1].at = m->hcas[2].at; },
       "mlx5_1: path to GPU0, GPU1, GPU2, GPU3, "},
      {[](Machine* m) { m->hcas[1].at = m->hcas[2].at; }, "GPU2, GPU3: path to its rail: "},
      {[](Machine* m) {
         m->switches[1].link = {8, 16};
       },
       ": PCIe link: 8 GT/s x16, expected "}};
  for (const auto& [change, text] : cases) {
    EXPECT_THAT(deviations(change), Contains(HasSubstr(text))) << text;
  }
}

TEST(Differences, NcclsChoice_IsCompared) {
  Document changed = document_of(good());
  changed["nccl"]["gpus"][2]["devices"] = Document::array({3});
  EXPECT_THAT(deviations(profile_of(changed), profile_of(document_of(good()))),
              ElementsAre(HasSubstr("GPU2: rails that NCCL uses: 3, expected ")));
}

TEST(Differences, RemovedAndAddedDevices_AreNamedAndTheOthersStillCompared) {
  const std::vector<std::string> removed = deviations([](Machine* machine) {
    machine->gpus.erase(machine->gpus.begin() + 2);
    machine->gpus[6].model = "B200";
  });
  EXPECT_THAT(removed, Contains("GPU2 (0000:33:00.0) is missing"));
  EXPECT_THAT(removed, Contains(HasSubstr("GPU6: model: B200")));
  const std::vector<std::string> added = deviations([](Machine* machine) {
    machine->hcas.push_back(topology::make_hca("mlx5_9", topology::bdf_of(0xf0), {-1, 0, 0}));
  });
  EXPECT_THAT(added, Contains("mlx5_9 (0000:f0:00.0) is unexpected"));
}

TEST(Differences, MissingSwitch_IsNamedUnlessOneMachineDoesNotStateSwitches) {
  const Document whole = document_of(good());
  Document changed = whole, open = whole;
  const std::string address = changed["switches"][0]["address"];
  changed["switches"].erase(0);
  open["switches"] = nullptr;
  EXPECT_THAT(deviations(profile_of(changed), profile_of(whole)),
              ElementsAre("PCIe switch " + address + " is missing"));
  EXPECT_THAT(deviations(profile_of(changed), profile_of(open)), IsEmpty());
}

TEST(Differences, CausesComeBeforeWhatFollows) {
  Profile changed = changed_by([](Machine* machine) {
    machine->hcas.erase(machine->hcas.begin() + 1);
    machine->gpus[0].nvlinks = {topology::NvLink{topology::NvLink::To::kSwitch, {}, 15}};
  });
  changed.settings = {{"NCCL_IB_HCA", "^mlx5_1"}};
  const std::vector<std::string> texts = deviations(changed, profile_of(document_of(good())));
  ASSERT_GE(texts.size(), 4u);
  EXPECT_EQ(texts[0], "NCCL_IB_HCA: ^mlx5_1, expected unset");
  EXPECT_THAT(texts[1], HasSubstr(" is missing"));
  EXPECT_THAT(texts[2], HasSubstr("GPU0: NVLinks: "));
  EXPECT_THAT(texts.back(), HasSubstr("NCCL"));
}

// Moves each device to the address of one below another switch.
void shift_buses(Machine* machine) {
  for (Gpu& gpu : machine->gpus) gpu.bdf.bus = static_cast<uint8_t>(gpu.bdf.bus + 0x20);
  for (Hca& hca : machine->hcas) hca.bdf->bus = static_cast<uint8_t>(hca.bdf->bus + 0x20);
}

TEST(Differences, NamesAddressesAndGuids_AreNotCompared) {
  const Change changes[] = {shift_buses, [](Machine* machine) {
                              for (Hca& hca : machine->hcas) {
                                hca.name = "ib" + hca.name;
                                hca.guid += 7;
                                hca.bdf->domain = 1;
                              }
                              for (Gpu& gpu : machine->gpus) gpu.bdf.domain = 1;
                              for (topology::Switch& one : machine->switches) one.bdf.domain = 1;
                            }};
  for (const Change& change : changes) EXPECT_THAT(deviations(change), IsEmpty());
}

TEST(Differences, HcasNamedByTheirAddresses_BelongTogetherByOrderWhereBusNumbersDiffer) {
  auto name = [](Machine* machine, int first) {
    machine->hcas.resize(4);  // the fifth has the last bus numbers
    for (size_t i = 0; i < machine->hcas.size(); ++i) {
      machine->hcas[i].name = "ibp" + std::to_string(first + static_cast<int>(i)) + "s0";
    }
  };
  const Profile expected = changed_by([&](Machine* machine) { name(machine, 15); });
  const Profile shifted = changed_by([&](Machine* machine) {
    name(machine, 16);
    shift_buses(machine);
  });
  EXPECT_THAT(deviations(shifted, expected), IsEmpty());
}

TEST(Differences, FaultOnAMachineWithOtherBusNumbers_IsTheOnlyOne) {
  EXPECT_THAT(deviations([](Machine* machine) {
                shift_buses(machine);
                machine->gpus[2].model = "B200";
              }),
              ElementsAre(HasSubstr("GPU2: model: B200, expected ")));
}

TEST(Differences, ValueUnknownOnOneSide_IsNone) {
  const Profile whole = profile_of(document_of(good()));
  const Change changes[] = {[](Machine* m) { m->hcas[1].ports[0].speed_mbps = 0; },
                            [](Machine* m) {
                              m->packages.clear();
                              for (auto& node : m->numa_nodes) node.package = -1;
                            }};
  for (const Change& change : changes) {
    EXPECT_THAT(deviations(changed_by(change), whole), IsEmpty());
    EXPECT_THAT(deviations(whole, changed_by(change)), IsEmpty());
  }
}

TEST(Differences, LikeOnesOfSeveralDevices_BecomeOneOfEachKind) {
  using Device = Difference::Device;
  const auto value = Difference::Kind::kValue, missing = Difference::Kind::kOnlyInSecond;
  std::vector<std::string> texts;
  for (const Difference& one : grouped({{value, "GPU0", "model", "A", "B"},
                                        {value, "GPU1", "model", "A", "B"},
                                        {value, "GPU2", "model", "A", "C"},
                                        {missing, "GPU3", "", "", "", Device::kGpu},
                                        {missing, "GPU4", "", "", "", Device::kGpu},
                                        {missing, "mlx5_0", "", "", "", Device::kHca}})) {
    texts.push_back(expecting_text(one));
  }
  EXPECT_THAT(texts, ElementsAre("GPU0, GPU1: model: A, expected B", "GPU2: model: A, expected C",
                                 "GPU3, GPU4 are missing", "mlx5_0 is missing"));
}

TEST(Differences, TextOfTwoMachines_NamesBoth) {
  const auto value = Difference::Kind::kValue, only_first = Difference::Kind::kOnlyInFirst;
  EXPECT_EQ(comparing_text({value, "mlx5_3", "port 1 state", "down", "active"}, "a", "b"),
            "mlx5_3: port 1 state: down in a, active in b");
  EXPECT_EQ(comparing_text({only_first, "mlx5_3", "", "", ""}, "a", "b"), "mlx5_3 is only in a");
}

TEST(Profile, OrderOfKeysAndUnknownKeys_DoNotMatter) {
  nlohmann::json sorted = nlohmann::json::parse(document_of(good()).dump());
  sorted["new_key"] = 1;
  EXPECT_THAT(
      deviations(profile_of(Document::parse(sorted.dump())), profile_of(document_of(good()))),
      IsEmpty());
}

TEST(Profile, TopologiesOfAnotherKind_AreErrors) {
  for (const char* text : {"{}", "[]", "1", "null", "{\"schema_version\": 1, \"gpus\": []}",
                           "{\"schema_version\": \"1\", \"gpus\": [], \"hcas\": []}"}) {
    Profile profile;
    EXPECT_FALSE(add_topology(Document::parse(text), &profile)) << text;
  }
  Document newer = document_of(good());
  newer["schema_version"] = topo::kJsonSchemaVersion + 1;
  Profile profile;
  const Status added = add_topology(newer, &profile);
  ASSERT_FALSE(added);
  EXPECT_THAT(added.error().text,
              HasSubstr("reads " + std::to_string(topo::kJsonSchemaVersion) + ": write it again"));
}

TEST(Profile, ValuesOfOtherTypes_AreUnknownOrTexts) {
  Document document = document_of(good());
  document["gpus"][0]["nvlinks"] = "many";
  document["gpus"][1] = 5;
  document["hcas"][0]["ports"] = 7;
  document["paths"] = nullptr;
  document["nccl"]["gpus"] = {{"a", 1}};
  document["rails"] = Document::array({1, nullptr, "x"});
  const Profile profile = profile_of(document);
  EXPECT_THAT(profile.gpus, SizeIs(8));
  EXPECT_THAT(profile.gpu_hca, IsEmpty());
}

TEST(Profile, NumbersThatAnIntCannotHold_AreUnknown) {
  for (const Document& number : {Document(1e300), Document(-1e300), Document(UINT64_MAX)}) {
    Document changed = document_of(good());
    changed["hcas"][0]["ports"][0]["speed_mbps"] = number;
    const std::vector<Property> properties = profile_of(changed).hcas[0].properties;
    const auto speed = std::find_if(properties.begin(), properties.end(),
                                    [](const auto& one) { return one.name == "port 1 speed"; });
    ASSERT_NE(speed, properties.end());
    EXPECT_EQ(speed->value, std::nullopt) << number;
    changed["schema_version"] = number;
    Profile profile;
    EXPECT_FALSE(add_topology(changed, &profile)) << number;
  }
}

}  // namespace
}  // namespace gdr::tools::doctor
