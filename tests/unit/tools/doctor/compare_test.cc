#include "tools/doctor/compare.h"

#include <gmock/gmock.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "tests/unit/tools/doctor/made_host.h"
#include "tests/unit/topology/machines.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using topology::Gpu;
using topology::Hca;
using topology::Machine;
using topology::Port;
using Json = nlohmann::ordered_json;
using Change = std::function<void(Machine*)>;

// The fingerprint of a machine with eight GPUs, five HCAs and NVSwitches, after a change.
Profile node_of(
    const std::string& name, const Change& change = [](Machine*) {}) {
  Machine machine = topology::with_nvlink();
  machine.gpu_links_known = true;
  change(&machine);
  MadeHost made;
  made.write("/proc/sys/kernel/hostname", name + "\n");
  made.write("/proc/sys/kernel/osrelease", "6.8.0\n");
  made.write("/sys/module/nvidia/version", "570.133.20\n");
  for (const Hca& hca : machine.hcas) {
    made.write("/sys/class/infiniband/" + hca.name + "/fw_ver", "28.41.1000\n");
  }
  made.host.inspection = topo::Inspection{.decision = topology::scene_of(std::move(machine))};
  return profile_of(made.host);
}

std::vector<Device>& gpus_of(Profile& node) { return node.devices[kGpuKind]; }
std::vector<Device>& hcas_of(Profile& node) { return node.devices[kHcaKind]; }

// The lines for a machine, of which "good" is what is expected.
std::string deviations(const Profile& node, const Profile& good = node_of("good")) {
  return to_text(compare_with_good(node, good));
}
std::string deviations(const Change& change) { return deviations(node_of("a", change)); }

// A machine in which the last differs from the others.
Comparison fleet_with(const Profile& odd) {
  return compare_fleet({node_of("b"), odd, node_of("c")});
}

constexpr char kAlike[] = "a is like good\n";

TEST(CompareWithGood, EachPropertyThatChanges_IsNamed) {
  const auto move_hca = [](Machine* m) { m->hcas[1].at = m->hcas[2].at; };
  const std::pair<Change, const char*> cases[] = {
      {[](Machine* m) { m->cpu.model = 85; }, "a: CPU: x86_64 GenuineIntel 6 85, expected "},
      {[](Machine* m) { m->gpus[2].model = "B200"; }, "a: GPU2: model: B200, expected "},
      {[](Machine* m) { m->gpus[2].compute_capability = 80; },
       "GPU2: compute capability: 80, expected 90"},
      {[](Machine* m) { m->gpus[2].ids.device = 0x2901; }, "GPU2: PCI device: 10de:2901, "},
      {[](Machine* m) { m->gpus[2].link.width = 8; }, "GPU2: PCIe link: 32 GT/s x8, expected "},
      {[](Machine* m) { m->gpus[2].nvlinks[0].count = 9; },
       "GPU2: NVLinks: 9 to NVSwitches, expected 18 to NVSwitches"},
      {[](Machine* m) { m->gpus[2].c2c_links = 3; }, "GPU2: NVLink-C2C links: 3, expected 0"},
      {[](Machine* m) { m->hcas[1].ports[0].speed_mbps = 200000; },
       "mlx5_1: port 1 speed: 200 Gb/s, expected 400 Gb/s"},
      {[](Machine* m) { m->hcas[1].ports[0].state = Port::State::kDown; },
       "mlx5_1: port 1 state: down, expected active"},
      {[](Machine* m) { m->hcas[1].ports[0].link_layer = Port::LinkLayer::kEthernet; },
       "mlx5_1: port 1 link layer: Ethernet, expected InfiniBand"},
      {[](Machine* m) { m->hcas[1].ports.push_back(m->hcas[1].ports[0]); },
       "mlx5_1: number of ports: 2, expected 1"},
      {move_hca, "mlx5_1: NUMA node: 1, expected 0"},
      {move_hca, "GPU2, GPU3: path to mlx5_1: SYS, expected PIX"},
      {move_hca, "GPU2, GPU3: path to its rail: "},
      {[](Machine* m) {
         m->switches[1].link = {8, 16};
       },
       ": PCIe link: 8 GT/s x16, expected "}};
  for (const auto& [change, text] : cases) EXPECT_THAT(deviations(change), HasSubstr(text));
}

TEST(CompareWithGood, Choices_AreCompared) {
  Profile node = node_of("a");
  gpus_of(node)[2].choices["rails that NCCL uses"] = "7";
  EXPECT_THAT(deviations(node), StartsWith("a: GPU2: rails that NCCL uses: 7, expected "));
}

TEST(CompareWithGood, SettingOfTheGoodMachineAlone_IsUnsetOnTheOther) {
  Profile good = node_of("good");
  good.settings["NCCL_IB_TC"] = "106";
  EXPECT_EQ(deviations(node_of("a"), good),
            "a: NCCL_IB_TC: unset, expected 106\na differs from good\n");
}

TEST(CompareWithGood, RemovedAndAddedDevices_AreNamedAndTheOthersStillCompared) {
  const std::string removed = deviations([](Machine* machine) {
    machine->gpus.erase(machine->gpus.begin() + 2);
    machine->gpus[6].model = "B200";
  });
  EXPECT_THAT(removed, StartsWith("a: GPU2 (0000:33:00.0): missing\na: GPU6: model: B200, "));
  const std::string added = deviations([](Machine* machine) {
    machine->hcas.push_back(topology::make_hca("mlx5_9", topology::bdf_of(0xf0), {-1, 0, 0}));
  });
  EXPECT_THAT(added, StartsWith("a: mlx5_9 (0000:f0:00.0): unexpected\n"));
  Profile fewer = node_of("a"), good = node_of("good");
  const std::string name = fewer.devices[kSwitchKind].front().name;
  fewer.devices[kSwitchKind].erase(fewer.devices[kSwitchKind].begin());
  EXPECT_EQ(deviations(fewer), "a: " + name + ": missing\na differs from good\n");
}

TEST(CompareWithGood, CausesComeBeforeWhatFollows) {
  Profile node = node_of("a", [](Machine* machine) {
    machine->hcas.erase(machine->hcas.begin() + 1);
    machine->gpus[0].nvlinks = {topology::NvLink{topology::NvLink::To::kSwitch, {}, 15}};
    machine->gpus[1].at = machine->gpus[7].at;
  });
  node.settings = {{"NCCL_IB_HCA", "^mlx5_1"}};
  node.machine[kNcclFailure] = "no path";
  const std::string text = deviations(node);
  EXPECT_THAT(text, StartsWith("a: NCCL_IB_HCA: ^mlx5_1, expected unset\na: mlx5_1 ("));
  size_t at = 0;
  for (const char* next :
       {": missing\n", "GPU0: NVLinks: ", ": path to ", ": rails: ", "NCCL's failure: "}) {
    EXPECT_NE(at = text.find(next, at), std::string::npos) << next << text;
  }
}

// Moves each device to the address of one below another switch.
void shift_buses(Machine* machine) {
  for (Gpu& gpu : machine->gpus) gpu.bdf.bus = static_cast<uint8_t>(gpu.bdf.bus + 0x20);
  for (Hca& hca : machine->hcas) hca.bdf->bus = static_cast<uint8_t>(hca.bdf->bus + 0x20);
}

TEST(CompareWithGood, NamesAddressesAndGuids_AreNotCompared) {
  const Change changes[] = {shift_buses, [](Machine* machine) {
                              for (Hca& hca : machine->hcas) {
                                hca.name = "ib" + hca.name;
                                hca.guid += 7;
                                hca.bdf->domain = 1;
                              }
                              for (Gpu& gpu : machine->gpus) gpu.bdf.domain = 1;
                              for (topology::Switch& one : machine->switches) one.bdf.domain = 1;
                            }};
  for (const Change& change : changes) EXPECT_EQ(deviations(change), kAlike);
  EXPECT_THAT(deviations([](Machine* machine) {
                shift_buses(machine);
                machine->gpus[2].model = "B200";
              }),
              StartsWith("a: GPU2: model: B200, expected NVIDIA H100\na differs"));
}

// Neither addresses nor names show which device is missing: GPU3 of the good machine is GPU2 here.
TEST(CompareWithGood, DeviceMissingWhereAllAddressesDiffer_IsFoundByItsPlaceInTheOrder) {
  const auto without_gpu = [](int gpu) {
    return [=](Machine* machine) {
      machine->gpus.erase(machine->gpus.begin() + gpu);
      shift_buses(machine);
    };
  };
  const Profile whole = node_of("a");
  const std::pair<int, std::string> gpus[] = {{0, "0000:13"}, {2, "0000:33"}, {7, "0000:75"}};
  for (const auto& [gpu, bus] : gpus) {
    const std::string name = "a: GPU" + std::to_string(gpu) + " (" + bus + ":00.0): ";
    EXPECT_EQ(deviations(without_gpu(gpu)), name + "missing\na differs from good\n");
    EXPECT_EQ(deviations(whole, node_of("good", without_gpu(gpu))),
              name + "unexpected\na differs from good\n");
  }
  const auto without_hca = [](int hca) {
    return [=](Machine* machine) {
      machine->hcas.resize(4);  // the fifth has the last bus numbers
      machine->hcas.erase(machine->hcas.begin() + hca);
      for (size_t i = 0; i < 3; ++i) machine->hcas[i].name = "ib" + std::to_string(i);
      shift_buses(machine);
    };
  };
  const Profile good = node_of("good", [](Machine* machine) { machine->hcas.resize(4); });
  for (int hca = 0; hca < 4; ++hca) {
    const std::string text = deviations(node_of("a", without_hca(hca)), good);
    EXPECT_THAT(text, StartsWith("a: mlx5_" + std::to_string(hca) + " ("));
    // What follows: the GPUs' rails.
    EXPECT_THAT(text, HasSubstr(":00.0): missing\na: GPU" + std::to_string(2 * hca)));
    EXPECT_THAT(text, HasSubstr(": path to its rail: PHB, expected PIX\n"));
  }
}

TEST(CompareWithGood, HcasNamedByTheirAddresses_BelongTogetherByOrderWhereBusNumbersDiffer) {
  const auto named = [](int first, const Change& change) {
    return [=](Machine* machine) {
      machine->hcas.resize(4);  // the fifth has the last bus numbers
      for (size_t i = 0; i < machine->hcas.size(); ++i) {
        machine->hcas[i].name = "ibp" + std::to_string(first + static_cast<int>(i)) + "s0";
      }
      change(machine);
    };
  };
  const Profile good = node_of("good", named(15, [](Machine*) {}));
  EXPECT_EQ(deviations(node_of("a", named(16, shift_buses)), good), kAlike);
}

// Only the paths between GPUs show which of them belong together.
TEST(CompareWithGood, GpusWithoutHcas_BelongTogetherByTheirPaths) {
  const auto two_below_each_switch = [](int first_bus) {
    return [=](Machine* machine) {
      *machine = topology::two_sockets();
      for (int i = 0; i < 2; ++i) {
        const topology::Attachment at{-1, 0, -1};
        const int parent = add_switch(machine, topology::bdf_of(0x80 + i), at);
        for (int bus = first_bus + 2 * i; bus < first_bus + 2 * i + 2; ++bus) {
          machine->gpus.push_back(topology::make_gpu(topology::bdf_of(bus), {parent, 0, -1}));
        }
      }
    };
  };
  EXPECT_EQ(deviations(node_of("a", two_below_each_switch(0x11)),
                       node_of("good", two_below_each_switch(0x10))),
            kAlike);
}

TEST(CompareWithGood, UnknownOnOneSide_IsNoDifference) {
  const Change changes[] = {[](Machine* m) { m->hcas[1].ports[0].speed_mbps = 0; },
                            [](Machine* m) { m->gpu_links_known = false; },
                            [](Machine* m) { m->gpus[2].nvlinks[0].count = 0; },
                            [](Machine* m) {
                              m->packages.clear();
                              for (auto& node : m->numa_nodes) node.package = -1;
                            }};
  for (const Change& change : changes) {
    EXPECT_EQ(deviations(change), kAlike);
    Profile changed = node_of("good", change);
    EXPECT_EQ(deviations(node_of("a"), changed), kAlike);
  }
}

TEST(CompareWithGood, NoTopologyOnOneSide_LeavesSoftwareAndFirmware) {
  MadeHost made;
  made.write("/sys/class/infiniband/mlx5_1/fw_ver", "28.41.1000\n");
  made.write("/sys/class/infiniband/mlx5_77/fw_ver", "28.41.1000\n");
  Profile without = profile_of(made.host);
  without.host = "a";
  EXPECT_EQ(deviations(without), kAlike);
  hcas_of(without)[0].properties["firmware"] = "28.39.1002";
  EXPECT_EQ(deviations(without),
            "a: mlx5_1: firmware: 28.39.1002, expected 28.41.1000\na differs from good\n");
}

TEST(CompareFleet, OneWithOtherDriverSettingAndFirmware_IsNamed) {
  Profile odd = node_of("odd");
  odd.machine["NVIDIA driver"] = "550.54.14";
  odd.settings["NCCL_IB_TC"] = "106";
  for (Device& hca : hcas_of(odd)) hca.properties["firmware"] = "28.39.1002";
  const Comparison result = fleet_with(odd);
  EXPECT_THAT(result.alike, ElementsAre("b", "c"));
  EXPECT_EQ(to_text(result),
            "odd: NVIDIA driver: 550.54.14, expected 570.133.20\n"
            "odd: NCCL_IB_TC: 106, expected unset\n"
            "odd: mlx5_0, mlx5_1, mlx5_2 and 2 more: firmware: 28.39.1002, expected 28.41.1000\n"
            "1 of 3 nodes differs: odd\n");
  const Json json = Json::parse(to_json(result));
  EXPECT_EQ(json["reference"], "b");
  EXPECT_EQ(json["majority"], true);
  EXPECT_EQ(json["different"][0]["node"], "odd");
  EXPECT_EQ(json["different"][0]["differences"].size(), 7u);
  EXPECT_EQ(
      json["different"][0]["differences"][1],
      Json(
          {{"subject", ""}, {"property", "NCCL_IB_TC"}, {"actual", "106"}, {"expected", "unset"}}));
}

TEST(CompareFleet, LikeDevicesOfTwoKinds_AreTwoLines) {
  const std::string text = to_text(fleet_with(node_of("odd", [](Machine* machine) {
    machine->gpus.resize(6);
    machine->hcas.resize(4);
  })));
  EXPECT_THAT(text, HasSubstr("odd: GPU6 ("));
  EXPECT_THAT(text, HasSubstr("): missing\nodd: mlx5_4 ("));
}

TEST(CompareFleet, SameNodes_AreAlike) {
  const Comparison result = fleet_with(node_of("a"));
  EXPECT_EQ(to_text(result), "3 nodes are alike\n");
  EXPECT_EQ(Json::parse(to_json(result))["alike"].size(), 3u);
}

TEST(CompareFleet, TwoThatDiffer_HaveNoMajority) {
  Profile other = node_of("b", [](Machine* machine) { machine->hcas.resize(4); });
  other.machine["kernel"] = "6.9.0";
  const Comparison result = compare_fleet({node_of("a"), other});
  EXPECT_FALSE(result.is_reference_right);
  EXPECT_THAT(to_text(result), StartsWith("b: kernel: 6.9.0 in b, 6.8.0 in a\nb: mlx5_4 ("));
  EXPECT_THAT(to_text(result), HasSubstr("): only in a\n"));
  EXPECT_THAT(to_text(result), HasSubstr("b differs from a; as many nodes are of one kind"));
}

TEST(CompareFleet, LargestGroup_IsTheMajority) {
  std::vector<Profile> nodes;
  for (const char* kernel : {"1", "2", "3", "2"}) {
    nodes.push_back(node_of(kernel));
    nodes.back().machine["kernel"] = kernel;
  }
  EXPECT_EQ(to_text(compare_fleet(nodes)),
            "1: kernel: 1, expected 2\n3: kernel: 3, expected 2\n2 of 4 nodes differ: 1, 3\n");
}

TEST(CompareFleet, NodeWithoutTopology_BelongsToTheLargestGroup) {
  MadeHost made;
  Profile without = profile_of(made.host);
  without.host = "without";
  const Profile odd = node_of("odd", [](Machine* machine) { machine->gpus[5].model = "B200"; });
  EXPECT_EQ(to_text(compare_fleet({without, odd, node_of("b"), node_of("c")})),
            "odd: GPU5: model: B200, expected NVIDIA H100\n1 of 4 nodes differs: odd\n");
}

}  // namespace
}  // namespace gdr::tools::doctor
