#include <gmock/gmock.h>

#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>
#include <set>
#include <sstream>

#include "tests/unit/tools/doctor/facts/made_host.h"
#include "tests/unit/topology/machines.h"
#include "tools/doctor/report/profile.h"
#include "tools/inspection/inspection.h"

namespace gdr::tools::doctor {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using topology::Gpu;
using topology::Hca;
using topology::Machine;
using topology::Port;
using Change = std::function<void(Machine*)>;

// The fingerprint of a machine with eight GPUs, five HCAs and NVSwitches, after a change.
Profile node_of(const Change& change = [](Machine*) {}) {
  Machine machine = topology::with_nvlink();
  machine.gpu_links_known = true;
  change(&machine);
  MadeHost made;
  made.host.file = "topology.xml";  // so that its GPUs need not be in /sys
  made.write("/proc/sys/kernel/osrelease", "6.8.0\n");
  made.write("/sys/module/nvidia/version", "570.133.20\n");
  for (const Hca& hca : machine.hcas) {
    made.write("/sys/class/infiniband/" + hca.name + "/fw_ver", "28.41.1000\n");
  }
  made.host.inspection = topo::Inspection{.decision = topology::scene_of(std::move(machine))};
  return profile_of(made.host);
}

std::vector<Device>& gpus_of(Profile& node) { return node.devices[kGpuKind]; }

// "GPU2: model: B200, expected NVIDIA H100", a line for each.
std::string deviations(const Profile& node, const Profile& good = node_of()) {
  std::string text;
  for (const Difference& one : compare_profiles(node, good)) {
    if (!one.subject.empty()) text += one.subject + ": ";
    text += one.property + ": " + one.first + ", expected " + one.second + "\n";
  }
  return text;
}
std::string deviations(const Change& change) { return deviations(node_of(change)); }

constexpr char kMissing[] = ": present: no, expected yes\n";

TEST(Differences, EachPropertyThatChanges_IsNamed) {
  const auto move_hca = [](Machine* m) { m->hcas[1].at = m->hcas[2].at; };
  const std::pair<Change, const char*> cases[] = {
      {[](Machine* m) { m->cpu.model = 85; }, "CPU: x86_64 GenuineIntel 6 85, expected "},
      {[](Machine* m) { m->gpus[2].model = "B200"; }, "GPU2: model: B200, expected "},
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
       "mlx5_1: ports: 1, 1, expected 1"},
      {move_hca, "mlx5_1: NUMA node: 1, expected 0"},
      {move_hca, "GPU2: path to mlx5_1: SYS, expected PIX"},
      {move_hca, "GPU2: path to its rail: "},
      {[](Machine* m) {
         m->switches[1].link = {8, 16};
       },
       ": PCIe link: 8 GT/s x16, expected "}};
  for (const auto& [change, text] : cases) EXPECT_THAT(deviations(change), HasSubstr(text));
}

TEST(Differences, RemovedAndAddedDevices_AreNamedAndTheOthersStillCompared) {
  const std::string removed = deviations([](Machine* machine) {
    machine->gpus.erase(machine->gpus.begin() + 2);
    machine->gpus[6].model = "B200";
  });
  EXPECT_THAT(removed,
              StartsWith("GPU2 (0000:33:00.0): present: no, expected yes\nGPU6: model: B200, "));
  const std::string added = deviations([](Machine* machine) {
    machine->hcas.push_back(topology::make_hca("mlx5_9", topology::bdf_of(0xf0), {-1, 0, 0}));
  });
  EXPECT_THAT(added, StartsWith("mlx5_9 (0000:f0:00.0): present: yes, expected no\n"));
  Profile fewer = node_of(), good = node_of();
  const std::string name = fewer.devices[kSwitchKind].front().name;
  fewer.devices[kSwitchKind].erase(fewer.devices[kSwitchKind].begin());
  EXPECT_EQ(deviations(fewer), name + kMissing);
}

TEST(Differences, CausesComeBeforeWhatFollows) {
  Profile node = node_of([](Machine* machine) {
    machine->hcas.erase(machine->hcas.begin() + 1);
    machine->gpus[0].nvlinks = {topology::NvLink{topology::NvLink::To::kSwitch, {}, 15}};
    machine->gpus[1].at = machine->gpus[7].at;
  });
  node.settings = {{"NCCL_IB_HCA", "^mlx5_1"}};
  node.machine[kNcclFailure] = "no path";
  const std::string text = deviations(node);
  EXPECT_THAT(text, StartsWith("NCCL_IB_HCA: ^mlx5_1, expected unset\nmlx5_1 ("));
  size_t at = 0;
  for (const char* next : {kMissing, "GPU0: NVLinks: ", ": path to "}) {
    EXPECT_NE(at = text.find(next, at), std::string::npos) << next << text;
  }
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
  for (const Change& change : changes) EXPECT_EQ(deviations(change), "");
  EXPECT_THAT(deviations([](Machine* machine) {
                shift_buses(machine);
                machine->gpus[2].model = "B200";
              }),
              StartsWith("GPU2: model: B200, expected NVIDIA H100\n"));
}

// Neither addresses nor names show which device is missing: GPU3 of the good machine is GPU2 here.
TEST(Differences, DeviceMissingWhereNothingShowsWhich_IsANumber) {
  for (int i = 0; i < 4; ++i) {
    const Change change = [=](Machine* machine) {
      machine->gpus.erase(machine->gpus.begin() + i);
      machine->hcas.erase(machine->hcas.begin() + i);
      for (size_t k = 0; k < 4; ++k) machine->hcas[k].name = "mlx5_" + std::to_string(k);
      for (Hca& hca : machine->hcas) hca.guid = 0;
      shift_buses(machine);
    };
    const std::string text = deviations(change);
    EXPECT_THAT(text, HasSubstr("number of devices: GPU: 7, expected 8\n"));
    EXPECT_THAT(text, HasSubstr("number of devices: HCA: 4, expected 5\n"));
    EXPECT_THAT(text, Not(HasSubstr("present")));
  }
}

// The root ports of the cards behind the lost one get the bus numbers before theirs, and the kernel
// gives the names in that order: all names and addresses are those of other cards.
TEST(Differences, HcaLostBeforeOthersThatMoveUp_IsNamedByGuids) {
  const auto eight = [](Machine* machine) {
    machine->hcas.clear();
    for (int i = 0; i < 8; ++i) {
      machine->hcas.push_back(
          topology::make_hca("mlx5_" + std::to_string(i), topology::bdf_of(0xe0 + i), {-1, 0, 0}));
      machine->hcas.back().guid = 0x100 + static_cast<uint64_t>(i);
    }
  };
  for (size_t lost = 0; lost < 8; ++lost) {
    const Profile node = node_of([&](Machine* machine) {
      eight(machine);
      for (size_t i = lost; i < 7; ++i) machine->hcas[i].guid = machine->hcas[i + 1].guid;
      machine->hcas.pop_back();
    });
    const std::string name = "mlx5_" + std::to_string(lost) + " (0000:e" + std::to_string(lost);
    EXPECT_EQ(deviations(node, node_of(eight)), name + ":00.0)" + kMissing);
  }
}

// As the switch of the lost board is gone, too, the last of the others is where none is now.
TEST(Differences, BoardLostBeforeOthersThatMoveUp_IsNamedByItsUuidAndItsSwitchIsNot) {
  Profile good = node_of();
  for (Device& gpu : gpus_of(good)) gpu.guid = "GPU-" + gpu.name;
  for (size_t lost = 0; lost < 7; ++lost) {
    Profile node = good;
    for (size_t i = lost; i < 7; ++i) gpus_of(node)[i].guid = gpus_of(good)[i + 1].guid;
    gpus_of(node).pop_back();
    node.devices[kSwitchKind].pop_back();
    const std::string text = deviations(node, good);
    const Device& gpu = gpus_of(good)[lost];
    EXPECT_THAT(text, HasSubstr(gpu.name + " (" + gpu.address + ")" + kMissing));
    EXPECT_THAT(text, HasSubstr("number of devices: PCIe switch: "));
    EXPECT_EQ(text.find("present"), text.rfind("present")) << text;
  }
}

// The card in the place of mlx5_1 is that of mlx5_3 of the good machine.
TEST(Differences, CardThatWasMovedBetweenMachines_IsComparedWithThatOfItsSlot) {
  const auto with_cards = [](uint64_t first, uint64_t second_card) {
    return [=](Machine* machine) {
      for (size_t i = 0; i < machine->hcas.size(); ++i) machine->hcas[i].guid = first + i;
      machine->hcas[1].guid = second_card;
    };
  };
  EXPECT_EQ(deviations(node_of(with_cards(0x200, 0x103)), node_of(with_cards(0x100, 0x101))), "");
}

TEST(Differences, HcasNamedByTheirAddresses_BelongTogetherByOrderWhereBusNumbersDiffer) {
  const auto named = [](int first, const Change& change) {
    return [=](Machine* machine) {
      machine->hcas.resize(4);  // the fifth has the last bus numbers
      for (size_t i = 0; i < machine->hcas.size(); ++i) {
        machine->hcas[i].name = "ibp" + std::to_string(first + static_cast<int>(i)) + "s0";
      }
      change(machine);
    };
  };
  const Profile good = node_of(named(15, [](Machine*) {}));
  EXPECT_EQ(deviations(node_of(named(16, shift_buses)), good), "");
}

TEST(Differences, UnknownOnOneSide_IsNoDifference) {
  const Change changes[] = {[](Machine* m) { m->hcas[1].ports[0].speed_mbps = 0; },
                            [](Machine* m) { m->gpu_links_known = false; },
                            [](Machine* m) { m->gpus[2].nvlinks[0].count = 0; },
                            [](Machine* m) {
                              m->packages.clear();
                              for (auto& node : m->numa_nodes) node.package = -1;
                            }};
  for (const Change& change : changes) {
    EXPECT_EQ(deviations(change), "");
    Profile changed = node_of(change);
    EXPECT_EQ(deviations(node_of(), changed), "");
  }
}

// Files of NCCL and hwloc, of which nothing else than the machine is known.
std::vector<fs::path> known_machines() {
  std::vector<fs::path> files;
  for (const auto& one : fs::recursive_directory_iterator(GDR_TOPOLOGIES)) {
    if (one.path().extension() == ".xml") files.push_back(one.path());
  }
  return files;
}

// A machine without a part of it, and the words that the findings have to begin a line with.
struct Loss {
  Machine rest;
  std::string name;
  bool is_device = true;
};

bool have_own_functions(const Machine& machine) {
  std::set<std::optional<topology::Bdf>> functions;
  for (const Hca& hca : machine.hcas) functions.insert(hca.bdf);
  return functions.size() == machine.hcas.size();
}

std::vector<Loss> losses_of(const Machine& machine, const Profile& good) {
  std::vector<Loss> losses;
  const auto lose = [&](const std::string& name, bool is_device, const Change& change) {
    losses.push_back({machine, name, is_device});
    change(&losses.back().rest);
  };
  const auto name_of = [&](const char* kind, size_t i) { return good.devices.at(kind)[i].name; };
  for (size_t i = 0; i < machine.gpus.size(); ++i) {
    const std::string name = name_of(kGpuKind, i);
    const auto at = static_cast<std::ptrdiff_t>(i);
    lose(name + " (", true, [=](Machine* m) { m->gpus.erase(m->gpus.begin() + at); });
    for (size_t link = 0; link < machine.gpus[i].nvlinks.size(); ++link) {
      if (machine.gpus[i].nvlinks[link].count == 0) continue;
      lose(name + ": NVLinks: ", false, [=](Machine* m) {
        std::vector<topology::NvLink>& links = m->gpus[i].nvlinks;
        if (--links[link].count == 0)
          links.erase(links.begin() + static_cast<std::ptrdiff_t>(link));
      });
    }
  }
  for (size_t i = 0; i < machine.hcas.size(); ++i) {
    const std::string name = name_of(kHcaKind, i);
    const auto at = static_cast<std::ptrdiff_t>(i);
    lose(name, true, [=](Machine* m) { m->hcas.erase(m->hcas.begin() + at); });
    for (size_t port = 0; port < machine.hcas[i].ports.size(); ++port) {
      lose(name + ": ports: ", false, [=](Machine* m) {
        std::vector<Port>& ports = m->hcas[i].ports;
        ports.erase(ports.begin() + static_cast<std::ptrdiff_t>(port));
      });
    }
    // The kernel numbers the devices in order. Two on one function have nothing else than names.
    if (!have_own_functions(machine)) continue;
    lose(name, true, [=](Machine* m) {
      for (size_t k = m->hcas.size() - 1; k > i; --k) m->hcas[k].name = m->hcas[k - 1].name;
      m->hcas.erase(m->hcas.begin() + at);
    });
  }
  return losses;
}

// Whether a line begins with the name of what was lost, and none says that another is missing.
bool is_rightly_named(const Loss& loss, const std::string& text) {
  std::istringstream lines(text);
  bool is_named = false;
  for (std::string line; std::getline(lines, line);) {
    const bool is_it = line.starts_with(loss.name) &&
                       (!loss.is_device || line.find(kPresence) != std::string::npos);
    is_named = is_named || is_it;
    if (line.find(" present: no") != std::string::npos && !(is_it && loss.is_device)) return false;
    if (line.find("number of devices") != std::string::npos) return false;
  }
  return is_named;
}

// Each GPU, HCA, NVLink and port of each known machine in turn.
TEST(Differences, EachPartTakenAway_IsNamedAndNoOther) {
  std::string table = "file: taken, rightly named\n";
  int taken = 0;
  for (const fs::path& file : known_machines()) {
    const Result<topo::Inspection> known = topo::inspect({.from = file.string()});
    if (!known) {
      table += file.filename().string() + ": refused\n";
      continue;
    }
    const Machine& machine = known->decision.machine;
    const auto become = [](const Machine& other) { return [&](Machine* m) { *m = other; }; };
    const Profile good = node_of(become(machine));
    EXPECT_EQ(deviations(good, good), "") << file;
    int right = 0;
    const std::vector<Loss> losses = losses_of(machine, good);
    for (const Loss& loss : losses) {
      const std::string text = deviations(node_of(become(loss.rest)), good);
      EXPECT_TRUE(is_rightly_named(loss, text)) << file << " " << loss.name << "\n" << text;
      right += is_rightly_named(loss, text) ? 1 : 0;
    }
    taken += static_cast<int>(losses.size());
    table += file.filename().string() + ": " + std::to_string(losses.size()) + ", " +
             std::to_string(right) + "\n";
  }
  EXPECT_GT(taken, 100);
  std::cout << table;
}

}  // namespace
}  // namespace gdr::tools::doctor
