#include "tools/topo/check.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>

#include "tests/unit/topology/machines.h"
#include "tools/topo/checks.h"

namespace gdr::tools::topo {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using topology::flat;
using topology::lopsided;
using topology::scene_of;
using topology::two_sockets_with_switches;
using topology::with_nvlink;

// Eight GPUs with NVLinks, and four HCAs that register GPU memory.
Machine good_machine() {
  Machine machine = with_nvlink();
  machine.gpu_links_known = true;
  for (Hca& hca : machine.hcas) hca.gpudirect = true;
  return machine;
}

CheckReport report_on(Machine machine, const PciStates& states = {},
                      const topology::nccl::Settings& settings = {}) {
  const Inspection inspection{scene_of(std::move(machine), settings), {}, 0, "/sys"};
  return check_machine(inspection, states);
}

// Faults of one device often make NCCL choose another HCA, which has tests of its own.
bool is_consequence(const Fault& fault) {
  return fault.check == Check::kNcclChoice || fault.check == Check::kNcclFails;
}

// The faults as the tool prints them, without consequences.
std::vector<std::string> faults_of(const CheckReport& report) {
  std::vector<std::string> texts;
  for (const Fault& fault : report.faults) {
    if (is_consequence(fault)) continue;
    texts.push_back(std::string(name_of(fault.check)) + ": " + to_string(fault.finding));
  }
  return texts;
}

std::vector<std::string> faults_with(const std::function<void(Machine*)>& change) {
  Machine machine = good_machine();
  change(&machine);
  return faults_of(report_on(std::move(machine)));
}

// The state of every function of a good machine, as a privileged process reads it.
PciStates good_states(const Machine& machine) {
  PciStates states;
  const PciState gpu{{32, 16}, 512, uint64_t{1} << 37, "identity"};
  const PciState hca{{32, 16}, 4096, uint64_t{1} << 25, "identity"};
  for (const Gpu& one : machine.gpus) states[one.bdf] = gpu;
  for (const Hca& one : machine.hcas) states[*one.bdf] = hca;
  for (const Switch& one : machine.switches) states[one.bdf] = {{16, 16}, 128, 0, "identity"};
  return states;
}

std::vector<std::string> faults_with_state(
    const std::function<void(const Machine&, PciStates*)>& change) {
  const Machine machine = good_machine();
  PciStates states = good_states(machine);
  change(machine, &states);
  return faults_of(report_on(machine, states));
}

TEST(Check, GoodMachine_HasNoFault) {
  EXPECT_THAT(faults_of(report_on(good_machine())), IsEmpty());
  EXPECT_THAT(faults_with_state([](const Machine&, PciStates*) {}), IsEmpty());
}

std::vector<std::string> consequences_of(const Machine& machine) {
  std::vector<std::string> texts;
  for (const Fault& fault : report_on(machine).faults) {
    if (is_consequence(fault)) {
      texts.push_back(std::string(name_of(fault.check)) + ": " + to_string(fault.finding));
    }
  }
  return texts;
}

TEST(Check, HcaThatNcclUsesInPlaceOfTheRail_IsNamedWithTheReason) {
  EXPECT_THAT(consequences_of(good_machine()), IsEmpty());
  Machine slow = good_machine();
  slow.hcas[1].ports[0].speed_mbps = 200000;
  EXPECT_THAT(consequences_of(slow),
              ElementsAre(AllOf(HasSubstr("nccl-choice: GPU2: NCCL uses mlx5_"),
                                HasSubstr("where the rail is mlx5_1:1, as NCCL prefers bandwidth")),
                          HasSubstr("nccl-choice: GPU3: ")));
}

TEST(Check, MachineOnWhichNcclFails_IsNamed) {
  Machine machine = good_machine();
  machine.gpus[4].nvlinks = {NvLink{NvLink::To::kGpu, machine.gpus[7].bdf, 2}};
  EXPECT_THAT(consequences_of(machine),
              Contains(HasSubstr("nccl-fails: NCCL 2.30.7 fails on this machine: ")));
}

TEST(Check, EmptyMachine_LacksBothKindsOfDevices) {
  EXPECT_THAT(faults_of(report_on(Machine{})),
              ElementsAre(HasSubstr("no-gpu: the machine shows no GPU"),
                          HasSubstr("no-hca: the machine shows no HCA")));
}

TEST(Check, GpuLinkNarrowerThanThatOfItsPeers_IsNamed) {
  EXPECT_THAT(faults_with([](Machine* machine) { machine->gpus[3].link.width = 8; }),
              ElementsAre(AllOf(HasSubstr("link-width: GPU3 (0000:35:00.0): the PCIe link has x8"),
                                HasSubstr("GPU0 (0000:13:00.0)"), HasSubstr("x16"))));
}

TEST(Check, HcaLinkSlowerThanThatOfItsPeers_IsNamed) {
  EXPECT_THAT(
      faults_with([](Machine* machine) { machine->hcas[2].link.gt_per_s = 16; }),
      ElementsAre(HasSubstr("link-speed: mlx5_2 (0000:54:00.0): the PCIe link has 16 GT/s")));
}

TEST(Check, SwitchLinkNarrowerThanThatOfItsPeers_IsNamed) {
  EXPECT_THAT(faults_with([](Machine* machine) { machine->switches[1].link.width = 4; }),
              ElementsAre(HasSubstr("link-width: PCIe switch 0000:31:00.0: the PCIe link has x4")));
}

TEST(Check, LinkOfAnotherModelOrRole_IsNotCompared) {
  EXPECT_THAT(faults_with([](Machine* machine) {
                machine->hcas[2].link.width = 8;
                machine->hcas[2].ids.device = 0x101b;
                machine->hcas[4].link.width = 4;  // the storage network's
              }),
              IsEmpty());
}

TEST(Check, UnknownLinks_AreANoteOnly) {
  Machine machine = good_machine();
  machine.gpus[3].link = {};
  const CheckReport report = report_on(machine);
  EXPECT_THAT(faults_of(report), IsEmpty());
  EXPECT_THAT(report.notes, Contains("the PCIe links of 1 of 17 devices are unknown"));
}

TEST(Check, GpusWithoutPciIds_ArePeersAndOthersANote) {
  Machine machine = good_machine();
  for (Gpu& gpu : machine.gpus) gpu.ids = {};
  for (Hca& hca : machine.hcas) hca.ids = {};
  EXPECT_THAT(report_on(machine).notes,
              Contains("PCIe links of HCAs are not compared: the source has no model of them"));
  machine.gpus[3].link.width = 8;
  EXPECT_THAT(faults_of(report_on(machine)),
              ElementsAre(HasSubstr("link-width: GPU3 (0000:35:00.0): the PCIe link has x8")));
  EXPECT_THAT(report_on(good_machine()).notes, Not(Contains(HasSubstr("not compared"))));
}

TEST(Check, LinkThatRunsBelowWhatItSupports_IsNamed) {
  EXPECT_THAT(faults_with_state([](const Machine& machine, PciStates* states) {
                (*states)[*machine.hcas[1].bdf].current = {8, 16};
                (*states)[machine.gpus[2].bdf].current = {32, 4};
              }),
              ElementsAre(AllOf(HasSubstr("link-width: GPU2"), HasSubstr("runs at x4"),
                                HasSubstr("x16 is possible")),
                          AllOf(HasSubstr("link-speed: mlx5_1"), HasSubstr("runs at 8 GT/s"),
                                HasSubstr("32 GT/s is possible"))));
}

// Idle GPUs, and with them the switches above, lower the speed of their links.
TEST(Check, SlowLinkOfAnIdleGpu_IsNoFault) {
  EXPECT_THAT(faults_with_state([](const Machine& machine, PciStates* states) {
                (*states)[machine.gpus[2].bdf].current = {2.5, 16};
                (*states)[machine.switches[1].bdf].current = {2.5, 16};
              }),
              IsEmpty());
}

TEST(Check, GpuWithFewerNvlinks_IsNamed) {
  EXPECT_THAT(faults_with([](Machine* machine) { machine->gpus[5].nvlinks[0].count = 16; }),
              ElementsAre(AllOf(HasSubstr("nvlink: GPU5 (0000:55:00.0): 16 NVLinks to NVSwitches"),
                                HasSubstr("GPU0, GPU1, GPU2 and 4 more have 18"))));
}

TEST(Check, GpuWithoutNvlinks_IsNamedOnlyWhereTheyAreKnown) {
  auto remove_links = [](Machine* machine) { machine->gpus[5].nvlinks.clear(); };
  EXPECT_THAT(faults_with(remove_links), ElementsAre(HasSubstr("nvlink: GPU5 (0000:55:00.0): no")));
  EXPECT_THAT(faults_with([&](Machine* machine) {
                remove_links(machine);
                machine->gpu_links_known = false;
              }),
              IsEmpty());
}

// A mesh in which each GPU has two links to its neighbours.
void make_ring(Machine* machine) {
  const size_t gpus = machine->gpus.size();
  for (size_t i = 0; i < gpus; ++i) {
    machine->gpus[i].nvlinks = {
        NvLink{NvLink::To::kGpu, machine->gpus[(i + 1) % gpus].bdf, 2},
        NvLink{NvLink::To::kGpu, machine->gpus[(i + gpus - 1) % gpus].bdf, 2}};
  }
}

TEST(Check, NvlinkThatTheOtherGpuDoesNotHave_IsNamed) {
  EXPECT_THAT(faults_with(make_ring), IsEmpty());
  // GPU4's link goes to GPU7 instead of GPU5: the counts are equal, the targets are not.
  const std::vector<std::string> faults = faults_with([](Machine* machine) {
    make_ring(machine);
    machine->gpus[4].nvlinks[0].gpu = machine->gpus[7].bdf;
  });
  EXPECT_THAT(faults, ElementsAre(HasSubstr("nvlink: GPU7 (0000:75:00.0): no NVLinks to GPU4"),
                                  HasSubstr("nvlink: GPU4 (0000:53:00.0): no NVLinks to GPU5")));
}

// Pairs of GPUs with four links; only one GPU of each pair has another link to the next pair.
void make_uneven_mesh(Machine* machine) {
  const size_t gpus = machine->gpus.size();
  for (size_t i = 0; i < gpus; ++i) {
    machine->gpus[i].nvlinks = {NvLink{NvLink::To::kGpu, machine->gpus[i ^ 1].bdf, 4}};
    if (i % 2 == 0) {
      machine->gpus[i].nvlinks.push_back(NvLink{NvLink::To::kGpu, machine->gpus[i ^ 2].bdf, 1});
    }
  }
}

TEST(Check, MeshThatGivesHalfOfTheGpusFewerLinks_IsANote) {
  Machine machine = good_machine();
  make_uneven_mesh(&machine);
  const CheckReport report = report_on(machine);
  EXPECT_THAT(faults_of(report), IsEmpty());
  EXPECT_THAT(report.notes, Contains(HasSubstr("GPU1, GPU3, GPU5, GPU7: fewer NVLinks")));
  machine.gpus[1].nvlinks[0].count = machine.gpus[0].nvlinks[0].count = 3;
  EXPECT_THAT(faults_of(report_on(machine)),
              ElementsAre(HasSubstr("nvlink: GPU1 (0000:15:00.0): 3 NVLinks to GPUs, where GPU2, "
                                    "GPU4, GPU6 have 5")));
}

// Four GPUs with four links between each two, one of which both of its ends have lost.
TEST(Check, LinkThatAFullMeshLacks_IsNamedAtBothEnds) {
  Machine machine = good_machine();
  machine.gpus.resize(4);
  for (Gpu& gpu : machine.gpus) {
    gpu.nvlinks.clear();
    for (const Gpu& other : machine.gpus) {
      if (other.bdf == gpu.bdf) continue;
      gpu.nvlinks.push_back(NvLink{NvLink::To::kGpu, other.bdf, 4});
    }
  }
  machine.gpus[0].nvlinks[0].count = machine.gpus[1].nvlinks[0].count = 3;
  const std::vector<std::string> faults = faults_of(report_on(machine));
  EXPECT_THAT(faults, Contains(HasSubstr("nvlink: GPU0 (0000:13:00.0): 11 NVLinks to GPUs")));
  EXPECT_THAT(faults, Contains(HasSubstr("nvlink: GPU1 (0000:15:00.0): 11 NVLinks to GPUs")));
}

TEST(Check, OneOfTwoGpusWithFewerNvlinks_IsNamed) {
  for (NvLink::To to : {NvLink::To::kSwitch, NvLink::To::kGpu}) {
    Machine machine = good_machine();
    machine.gpus.resize(2);
    for (size_t i = 0; i < 2; ++i) {
      machine.gpus[i].nvlinks = {NvLink{to, {}, 4}};
      if (to == NvLink::To::kGpu) machine.gpus[i].nvlinks[0].gpu = machine.gpus[1 - i].bdf;
    }
    EXPECT_THAT(faults_of(report_on(machine)), Not(Contains(HasSubstr("nvlink: "))));
    machine.gpus[1].nvlinks[0].count = 3;
    EXPECT_THAT(faults_of(report_on(machine)),
                Contains(HasSubstr("nvlink: GPU1 (0000:15:00.0): 3 NVLinks to")));
  }
}

// Bridges join the GPUs in pairs, so that half of them without links are no design.
TEST(Check, LostBridgeOfAPair_IsNamedAtBothEnds) {
  auto make_pairs = [](Machine* machine) {
    for (size_t i = 0; i < machine->gpus.size(); ++i) {
      machine->gpus[i].nvlinks = {NvLink{NvLink::To::kGpu, machine->gpus[i ^ 1].bdf, 12}};
    }
  };
  EXPECT_THAT(faults_with(make_pairs), IsEmpty());
  for (int left : {0, 4, 8}) {
    for (size_t lost : {2, 4}) {
      const std::vector<std::string> faults = faults_with([&](Machine* machine) {
        make_pairs(machine);
        for (size_t i = 0; i < lost; ++i) {
          machine->gpus[i].nvlinks[0].count = left;
          if (left == 0) machine->gpus[i].nvlinks.clear();
        }
      });
      EXPECT_EQ(faults.size(), lost);
      EXPECT_THAT(faults, Contains(AllOf(HasSubstr("nvlink: GPU1 (0000:15:00.0): "),
                                         HasSubstr("NVLinks to GPUs, where GPU"),
                                         EndsWith("replace the bridge"))));
    }
  }
}

TEST(Check, NvlinksToAGpuThatIsNotThere_NameIt) {
  auto lose = [](Machine* machine) {
    make_ring(machine);
    machine->gpus.pop_back();
  };
  EXPECT_THAT(faults_with(lose),
              Contains(HasSubstr("nvlink: 0000:75:00.0: the machine shows no GPU there, to which "
                                 "GPU0, GPU6 have NVLinks")));
  EXPECT_THAT(faults_with([&](Machine* machine) {
                lose(machine);
                machine->hosts = 2;
              }),
              Not(Contains(HasSubstr("the machine shows no GPU there"))));
}

TEST(Check, C2cMissingOnOneGpu_IsNamed) {
  auto with_c2c = [](Machine* machine) {
    for (Gpu& gpu : machine->gpus) gpu.c2c_links = 10;
  };
  EXPECT_THAT(faults_with(with_c2c), IsEmpty());
  EXPECT_THAT(faults_with([&](Machine* machine) {
                with_c2c(machine);
                machine->gpus[6].c2c_links = 0;
              }),
              ElementsAre(AllOf(HasSubstr("c2c: GPU6 (0000:73:00.0): no NVLink-C2C links"),
                                HasSubstr("have 10"))));
}

TEST(Check, RailThatIsDown_IsNamedAndOtherPortsAreNot) {
  EXPECT_THAT(
      faults_with([](Machine* machine) { machine->hcas[1].ports[0].state = Port::State::kDown; }),
      Contains(HasSubstr("port-down: mlx5_1:1: the port is down, and rail 1 with it")));
  // Port 2 of the storage network is down in each of these machines.
  EXPECT_THAT(faults_of(report_on(good_machine())), IsEmpty());
}

// Cards of two ports, as ports of one function or as functions of one port.
Machine with_second_ports(bool as_functions) {
  Machine machine = good_machine();
  for (size_t i = 0; i < 4; ++i) {
    Port second = machine.hcas[i].ports[0];
    second.state = Port::State::kDown;
    if (as_functions) {
      Hca other = machine.hcas[i];
      other.name += "_second";
      other.bdf->function = 1;
      other.ports = {second};
      machine.hcas.push_back(std::move(other));
    } else {
      second.number = 2;
      machine.hcas[i].ports.push_back(second);
    }
  }
  return machine;
}

TEST(Check, SecondPortsThatNoCardOfTheModelHasUp_AreANote) {
  for (bool as_functions : {false, true}) {
    const CheckReport report = report_on(with_second_ports(as_functions));
    EXPECT_THAT(faults_of(report), IsEmpty());
    EXPECT_THAT(report.notes, Contains(HasSubstr(as_functions ? "up (mlx5_0_second:1, "
                                                              : "up (mlx5_0:2, mlx5_1:2")));
  }
}

TEST(Check, SecondPortsThatNoCardOfTheModelHasUp_AreAFaultWhereSysfsShowsTheirUse) {
  namespace fs = std::filesystem;
  const fs::path root =
      fs::path(::testing::TempDir()) / ("second_ports." + std::to_string(getpid()));
  const fs::path port = root / "class/infiniband/mlx5_1/ports/2";
  fs::create_directories(port);
  std::ofstream(port / "phys_state") << "5: LinkUp\n";
  const Inspection inspection{.decision = scene_of(with_second_ports(false)), .sysfs_root = root};
  const CheckReport report = check_machine(inspection, {});
  EXPECT_THAT(faults_of(report),
              ElementsAre(AllOf(HasSubstr("port-down: mlx5_1:2: "),
                                HasSubstr("in use: its link is up physically, and not active"))));
  EXPECT_THAT(report.notes, Contains(HasSubstr("up (mlx5_0:2, mlx5_2:2, mlx5_3:2): ")));
  fs::remove_all(root);
}

TEST(Check, SecondPortThatIsDownWhereThoseOfPeersAreUp_IsNamed) {
  Machine machine = with_second_ports(false);
  machine.hcas[2].ports[1].state = Port::State::kActive;
  EXPECT_THAT(faults_of(report_on(machine)),
              ElementsAre(HasSubstr("port-down: mlx5_0:2: "), HasSubstr("port-down: mlx5_1:2: "),
                          HasSubstr("port-down: mlx5_3:2: ")));
}

TEST(Check, FirstPortThatIsDown_IsNamedThoughAllAre) {
  Machine machine = good_machine();
  for (size_t i = 0; i < 4; ++i) machine.hcas[i].ports[0].state = Port::State::kDown;
  EXPECT_THAT(faults_of(report_on(machine)), Contains(HasSubstr("port-down: mlx5_0:1: ")));
}

TEST(Check, LinkSlowerThanTheFileStates_IsNamed) {
  EXPECT_THAT(faults_with([](Machine* machine) {
                for (size_t i = 0; i < 4; ++i) machine->hcas[i].ports[0].link_mbps = 400000;
                machine->hcas[1].ports[0].link_mbps = 100000;
              }),
              ElementsAre(HasSubstr("port-speed: mlx5_1:1: the port runs at 100 Gb/s, its peers "
                                    "mlx5_0:1, mlx5_2:1, mlx5_3:1 at up to 400 Gb/s")));
}

TEST(Check, PortSlowerThanItsPeers_IsNamed) {
  EXPECT_THAT(faults_with([](Machine* machine) { machine->hcas[1].ports[0].speed_mbps = 200000; }),
              ElementsAre(HasSubstr("port-speed: mlx5_1:1: the port runs at 200 Gb/s, its peers "
                                    "mlx5_0:1, mlx5_2:1, mlx5_3:1 at up to 400 Gb/s")));
}

TEST(Check, PortOfAnotherModel_MayBeSlower) {
  EXPECT_THAT(faults_with([](Machine* machine) {
                machine->hcas[1].ports[0].speed_mbps = 200000;
                machine->hcas[1].ids.device = 0x101b;
              }),
              IsEmpty());
}

TEST(Check, PortsOfTwoLinkLayers_NeedNotHaveOneSpeed) {
  auto slow = [](Machine* machine, Port::LinkLayer layer) {
    machine->hcas[1].ports[0].speed_mbps = 200000;
    machine->hcas[1].ports[0].link_layer = layer;
  };
  EXPECT_THAT(faults_with([&](Machine* machine) { slow(machine, Port::LinkLayer::kEthernet); }),
              ElementsAre(HasSubstr("link-layer: mlx5_1:1: ")));
  EXPECT_THAT(faults_with([&](Machine* machine) { slow(machine, Port::LinkLayer::kInfiniBand); }),
              ElementsAre(HasSubstr("port-speed: mlx5_1:1: ")));
}

// HCAs on the CPU become rails where those below the switches are missing.
TEST(Check, SlowPortThatReplacesAMissingHca_GetsNoAdviceOnItsCable) {
  const std::vector<std::string> faults = faults_with([](Machine* machine) {
    machine->hcas[3].at.parent = machine->hcas[2].at.parent = -1;
    machine->hcas[3].ports[0].speed_mbps = 100000;
  });
  EXPECT_THAT(faults, Contains(HasSubstr("no HCA is below the same PCIe switch")));
  EXPECT_THAT(faults, Not(Contains(HasSubstr("cable"))));
}

TEST(Check, RailsOfTwoLinkLayers_NameTheFew) {
  EXPECT_THAT(faults_with([](Machine* machine) {
                machine->hcas[3].ports[0].link_layer = Port::LinkLayer::kEthernet;
              }),
              ElementsAre(HasSubstr("link-layer: mlx5_3:1: link layer Ethernet, that of the other "
                                    "rails is InfiniBand")));
  EXPECT_THAT(faults_with([](Machine* machine) {
                for (Hca& hca : machine->hcas) {
                  hca.ports[0].link_layer = Port::LinkLayer::kEthernet;
                }
              }),
              IsEmpty());
}

TEST(Check, HcaThatCannotRegisterGpuMemory_IsNamed) {
  EXPECT_THAT(faults_with([](Machine* machine) { machine->hcas[0].gpudirect = false; }),
              ElementsAre(HasSubstr("no-gpudirect: mlx5_0: cannot register GPU memory")));
}

// NCCL's files list network interfaces that it uses by sockets like HCAs.
TEST(Check, NetworkInterfaceInAFileOfNccl_IsANote) {
  Machine machine = good_machine();
  for (Hca& hca : machine.hcas) hca.gpudirect = false;
  machine.hcas[1].guid = 1;  // NCCL numbers them
  for (Gpu& gpu : machine.gpus) gpu.gpudirect = false;
  machine.nccl_file = true;
  const CheckReport report = report_on(machine);
  EXPECT_THAT(faults_of(report), Not(Contains(HasSubstr("no-gpudirect"))));
  EXPECT_THAT(report.notes,
              Contains(HasSubstr("mlx5_0, mlx5_1, mlx5_2, mlx5_3: no RDMA device, as far as")));
  machine.hcas[2].guid = 0x946dae0300112233;
  const std::vector<std::string> faults = faults_of(report_on(machine));
  EXPECT_THAT(faults, Contains(HasSubstr("no-gpudirect: mlx5_2: cannot register GPU memory")));
  EXPECT_THAT(faults, Contains(HasSubstr("no-gpudirect: GPU0, ")));
}

// In a file without GUIDs, peers with GPUDirect RDMA show that a device is none of the interfaces.
TEST(Check, HcaWithoutGpuDirectBesidePeersWithIt_IsNamedInAFileOfNccl) {
  Machine machine = good_machine();
  machine.nccl_file = true;
  for (Hca& hca : machine.hcas) hca.guid = 0;
  machine.hcas[1].gpudirect = false;
  EXPECT_THAT(faults_of(report_on(machine)),
              ElementsAre(HasSubstr("no-gpudirect: mlx5_1: cannot register GPU memory")));
  machine.hcas[1].name = "eth0";
  EXPECT_THAT(faults_of(report_on(machine)), IsEmpty());
}

TEST(Check, GpuOfAnotherVendorWithoutGpuDirect_HasAFixForIt) {
  EXPECT_THAT(faults_with([](Machine* machine) {
                for (Gpu& gpu : machine->gpus) {
                  gpu.ids.vendor = 0x1002;
                  gpu.gpudirect = false;
                }
              }),
              ElementsAre(AllOf(HasSubstr("no-gpudirect: GPU0, "), HasSubstr("peer-to-peer DMA"),
                                Not(HasSubstr("NVIDIA")))));
}

TEST(Check, UnknownRegistration_IsANoteOnly) {
  Machine machine = good_machine();
  machine.hcas[0].gpudirect.reset();
  const CheckReport report = report_on(machine);
  EXPECT_THAT(faults_of(report), IsEmpty());
  EXPECT_THAT(report.notes, Contains("whether HCAs can register GPU memory is unknown: mlx5_0:1"));
}

TEST(Check, NoHca_IsOneFault) {
  EXPECT_THAT(faults_with([](Machine* machine) { machine->hcas.clear(); }),
              ElementsAre(HasSubstr("no-hca: the machine shows no HCA, so that no GPU has a rail. "
                                    "Fix: look at lspci and ibstat")));
}

TEST(Check, NoGpu_IsOneFault) {
  EXPECT_THAT(faults_with([](Machine* machine) { machine->gpus.clear(); }),
              ElementsAre(HasSubstr("no-gpu: the machine shows no GPU")));
}

TEST(Check, HcaThatIsMissingOnOneSwitch_LeavesItsGpusFarAway) {
  Machine machine = good_machine();
  machine.hcas.erase(machine.hcas.begin() + 3);
  const CheckReport report = report_on(machine);
  EXPECT_THAT(faults_of(report),
              Contains(HasSubstr("rail-share: GPU6, GPU7: no HCA is below the same PCIe "
                                 "switch, where GPU0, GPU1, GPU2 and 3 more have one")));
  EXPECT_THAT(report.notes, Contains(HasSubstr(
                                "GPU4, GPU5, GPU6, GPU7: 1/4 of a rail for each, where GPU0, GPU1, "
                                "GPU2, GPU3 have 1/2 of a rail, since 3 rails for 8 GPUs")));
}

// One more HCA on each switch of `switches`.
Machine with_more_hcas(std::initializer_list<int> switches) {
  Machine machine = good_machine();
  for (int one : switches) {
    Hca more = machine.hcas[static_cast<size_t>(one)];
    more.name = "mlx5_1" + std::to_string(one);
    more.bdf->device = 1;
    machine.hcas.push_back(std::move(more));
  }
  return machine;
}

// Six HCAs for eight GPUs. On the CPU itself they may be where they are by design.
TEST(Check, SharesOfNumbersThatDoNotComeOutEven_AreANoteWhereHcasAreOnTheCpu) {
  Machine machine = with_more_hcas({0, 2});
  for (Hca& hca : machine.hcas) hca.at.parent = -1;
  const CheckReport report = report_on(machine);
  EXPECT_THAT(faults_of(report), Not(Contains(HasSubstr("rail-share"))));
  EXPECT_THAT(report.notes, Contains(HasSubstr("since 6 rails for 8 GPUs do not come out even")));
}

TEST(Check, FewerHcasBelowALikeSwitch_AreAFault) {
  EXPECT_THAT(faults_of(report_on(with_more_hcas({0, 2}))),
              ElementsAre(HasSubstr("rail-share: GPU2, GPU3, GPU6, GPU7: 1/2 of a rail for each, "
                                    "where GPU0, GPU1, GPU4, GPU5 have 1 rail")));
  Machine other = with_more_hcas({0, 2});
  other.switches[1].ids.device = other.switches[3].ids.device = 0x1234;
  EXPECT_THAT(faults_of(report_on(other)), IsEmpty());
}

// Two switches, each with three GPUs and two HCAs, as where each has lost one of four GPUs.
TEST(Check, OddGpusBelowEachSwitch_AreAFault) {
  Machine machine = with_more_hcas({0, 2});
  for (size_t i = 0; i < machine.gpus.size(); ++i) machine.gpus[i].at = machine.gpus[i / 4 * 4].at;
  for (Hca& hca : machine.hcas) {
    if (hca.at.parent == machine.gpus[2].at.parent) continue;
    if (hca.at.numa == machine.gpus[0].at.numa) hca.at = machine.gpus[0].at;
    if (hca.at.numa == machine.gpus[4].at.numa) hca.at = machine.gpus[4].at;
  }
  machine.hcas = {machine.hcas[0], machine.hcas[1], machine.hcas[2], machine.hcas[3]};
  EXPECT_THAT(faults_of(report_on(machine)), Not(Contains(HasSubstr("rail-share"))));
  machine.gpus.erase(machine.gpus.begin() + 7);
  machine.gpus.erase(machine.gpus.begin() + 3);
  EXPECT_THAT(faults_of(report_on(machine)), Contains(HasSubstr("rail-share: ")));
}

TEST(Check, HcaThatIsMissingBesideAnother_ShowsInTheShares) {
  EXPECT_THAT(faults_of(report_on(with_more_hcas({0, 1, 2, 3}))), IsEmpty());
  EXPECT_THAT(faults_of(report_on(with_more_hcas({0, 1, 2}))),
              ElementsAre(HasSubstr("rail-share: GPU6, GPU7: 1/2 of a rail for each, where ")));
}

TEST(Check, SharesThatCouldBeEven_AreAFault) {
  Machine machine = with_more_hcas({0});
  machine.hcas.erase(machine.hcas.begin() + 3);  // 4 rails: 2, 1, 1 and 0 on the switches
  EXPECT_THAT(faults_of(report_on(machine)), Contains(HasSubstr("rail-share: GPU2, GPU3")));
}

TEST(Check, GpuThatIsMissing_ShowsInTheShares) {
  EXPECT_THAT(faults_with([](Machine* machine) { machine->gpus.pop_back(); }),
              Contains(HasSubstr("1/2 of a rail for each, where GPU6 has 1 rail")));
}

// One HCA for two switches, each with GPUs.
TEST(Check, FewerHcasThanSwitches_LeaveGpusFarAwayByDesign) {
  Machine machine = good_machine();
  machine.gpus.erase(machine.gpus.begin() + 4, machine.gpus.end());
  machine.hcas = {machine.hcas[0]};
  for (Gpu& gpu : machine.gpus) gpu.nvlinks.clear();
  const CheckReport report = report_on(machine);
  EXPECT_THAT(faults_of(report), ElementsAre(HasSubstr("gdr-reach: GPU2, GPU3: ")));
  EXPECT_THAT(report.notes,
              Contains(HasSubstr("GPU2, GPU3: no HCA is below the same PCIe switch")));
}

// Two switches with GPUs on two sockets, and both HCAs on one of them.
TEST(Check, HcasOnOneSocketOnly_AreTheDesign) {
  Machine machine = good_machine();
  machine.gpus = {machine.gpus[0], machine.gpus[1], machine.gpus[4], machine.gpus[5]};
  machine.hcas.resize(2);
  machine.hcas[1].at = machine.hcas[0].at;
  const CheckReport report = report_on(machine);
  EXPECT_THAT(faults_of(report), Not(Contains(HasSubstr("rail-share"))));
  EXPECT_THAT(report.notes,
              Contains(HasSubstr("GPU2, GPU3: no HCA is below the same PCIe switch")));
}

// Each GPU has an HCA of its own below its switch.
Machine one_to_one_machine() {
  Machine machine = good_machine();
  machine.gpus = {machine.gpus[0], machine.gpus[2], machine.gpus[4], machine.gpus[6]};
  return machine;
}

TEST(Check, HcaWhoseGpuIsMissing_IsNamed) {
  EXPECT_THAT(faults_of(report_on(one_to_one_machine())), IsEmpty());
  for (size_t gpu = 0; gpu < 4; ++gpu) {
    Machine machine = one_to_one_machine();
    machine.gpus.erase(machine.gpus.begin() + static_cast<ptrdiff_t>(gpu));
    EXPECT_THAT(faults_of(report_on(machine)),
                ElementsAre(HasSubstr("rail-share: mlx5_" + std::to_string(gpu) +
                                      ":1: like the rails, and near no GPU, where each of the 3 "
                                      "GPUs has a rail of its own: a GPU may be missing")));
    machine.hcas[gpu].ids.device = 0x101b;  // as that of a storage network
    EXPECT_THAT(faults_of(report_on(machine)), IsEmpty());
  }
}

// A switch that is lost with its GPU and its HCA leaves nothing uneven.
TEST(Check, NumberOfGpusThatIsNoPowerOfTwo_IsANote) {
  Machine machine = one_to_one_machine();
  machine.gpus.pop_back();
  machine.hcas.erase(machine.hcas.begin() + 3);
  const CheckReport report = report_on(machine);
  EXPECT_THAT(faults_of(report), IsEmpty());
  EXPECT_THAT(report.notes, Contains(HasSubstr("3 GPUs are an unusual number: ")));
  EXPECT_THAT(report_on(one_to_one_machine()).notes, Not(Contains(HasSubstr("unusual"))));
}

TEST(Check, RailThatIsDown_HidesNoHcaThatIsMissing) {
  Machine machine = with_more_hcas({0, 1, 2});
  machine.hcas[0].ports[0].state = Port::State::kDown;
  EXPECT_THAT(faults_of(report_on(machine)),
              ElementsAre(HasSubstr("rail-share: GPU6, GPU7: 1/2 of a rail for each, where "),
                          HasSubstr("port-down: ")));
  const Inspection by_map{.decision = scene_of(machine),
                          .settings = {{"GDR_NCCL_RAIL_MAP", UserSetting{}}}};
  EXPECT_THAT(faults_of(check_machine(by_map, {})), ElementsAre(HasSubstr("port-down: ")));
  machine = with_more_hcas({0, 1, 2, 3});
  machine.hcas[0].ports[0].state = Port::State::kDown;
  EXPECT_THAT(faults_of(report_on(machine)), ElementsAre(HasSubstr("port-down: ")));
}

TEST(Check, PortsLeftOutByTheUser_AreTheFaultInPlaceOfWhatFollows) {
  Machine machine = good_machine();
  machine.hcas.resize(3);
  const Inspection inspection{.decision = scene_of(machine),
                              .unrestricted = scene_of(good_machine()),
                              .restricted_by = "NCCL_IB_HCA=^mlx5_3"};
  const std::vector<std::string> faults = faults_of(check_machine(inspection, {}));
  EXPECT_THAT(faults, Contains(HasSubstr("setting: GPU4, GPU5, GPU6, GPU7: NCCL_IB_HCA=^mlx5_3 "
                                         "leaves out mlx5_3:1, so that rails are farther")));
  EXPECT_THAT(faults, Not(Contains(HasSubstr("rail-share"))));
}

TEST(Check, RailBeyondTheLevel_IsOneFaultForAllGpusWithTheReason) {
  Machine machine = flat(2, 2);
  machine.cpu.arch = "x86_64";
  EXPECT_THAT(faults_of(report_on(machine)),
              ElementsAre(AllOf(HasSubstr("gdr-reach: GPU0, GPU1: no GPUDirect RDMA"),
                                HasSubstr("copied through host memory"), HasSubstr("PHB is beyond"),
                                HasSubstr("Fix: export NCCL_NET_GDR_LEVEL=PHB, and measure both"),
                                HasSubstr("in a virtual machine, NCCL_TOPO_FILE"))));
  topology::nccl::Settings settings;
  settings.gdr_level = PathClass::kSys;
  EXPECT_THAT(faults_of(report_on(machine, {}, settings)), IsEmpty());
}

// GPU4 and its rail are on different sockets, and NCCL reaches the HCAs of others over NVLink.
TEST(Check, RailBeyondTheLevelThatNcclDoesNotUse_IsNotBlamedForCopies) {
  Machine machine = good_machine();
  machine.gpus.resize(5);
  for (Gpu& gpu : machine.gpus) gpu.nvlinks.clear();
  for (Gpu& gpu : machine.gpus) gpu.nvlinks = {NvLink{NvLink::To::kSwitch, {}, 12}};
  machine.hcas.resize(3);
  machine.hcas[2].at = Attachment{-1, 0, -1};
  machine.gpus[4].at = Attachment{-1, 1, -1};
  for (Hca& hca : machine.hcas) hca.link = PciLink{16, 16};
  const std::vector<std::string> faults = faults_of(report_on(machine));
  EXPECT_THAT(faults, Contains(AllOf(HasSubstr("gdr-reach: GPU4: no GPUDirect RDMA"),
                                     HasSubstr("but with the HCAs that NCCL uses in its place"))));
  EXPECT_THAT(faults, Not(Contains(HasSubstr("copied through host memory"))));
}

TEST(Check, FixOfARailOutOfReach_IsTheLineThatChangesIt) {
  topology::nccl::Settings settings;
  EXPECT_THAT(faults_of(report_on(lopsided(), {}, settings)),
              Contains(AllOf(HasSubstr("gdr-reach: GPU1: "), HasSubstr("different NUMA nodes"),
                             HasSubstr("export NCCL_NET_GDR_LEVEL=SYS allows it"))));
  settings.gdr_level = PathClass::kLoc;
  EXPECT_THAT(faults_of(report_on(good_machine(), {}, settings)),
              ElementsAre(AllOf(HasSubstr("gdr-reach: GPU0, "),
                                EndsWith("Fix: unset NCCL_NET_GDR_LEVEL"))));
  Machine with_c2c = flat(2, 2);
  for (Gpu& gpu : with_c2c.gpus) gpu.c2c_links = 10;
  settings = {};
  settings.gdr_c2c = false;
  EXPECT_THAT(faults_of(report_on(with_c2c, {}, settings)),
              ElementsAre(AllOf(HasSubstr("gdr-reach: GPU0, GPU1: "),
                                EndsWith("Fix: export NCCL_NET_GDR_C2C=1"))));
}

TEST(Check, DeviceOfUnknownNumaNode_IsNamedWhereThereAreSeveralNodes) {
  auto lose_node = [](Machine* machine) {
    machine->numa_nodes.push_back({-1, -1, ""});
    machine->hcas[3].at.numa = static_cast<int>(machine->numa_nodes.size()) - 1;
  };
  EXPECT_THAT(faults_with(lose_node),
              Contains(HasSubstr("numa-node: mlx5_3 (0000:74:00.0): the NUMA node is unknown")));
  Machine one_node = flat(1, 1);
  one_node.numa_nodes[0].id = -1;
  topology::nccl::Settings settings;
  settings.gdr_level = PathClass::kSys;
  EXPECT_THAT(faults_of(report_on(one_node, {}, settings)), IsEmpty());
}

// NCCL's files have a CPU for the devices of each node, also for those whose node is unknown.
TEST(Check, CpuOfUnknownNodeBesideAnother_IsNamedInAFileOfNccl) {
  Machine machine = good_machine();
  machine.nccl_file = true;
  machine.numa_nodes[1].id = -1;
  const CheckReport report = report_on(machine);
  EXPECT_THAT(faults_of(report), ElementsAre(HasSubstr("numa-node: GPU4")));
  machine.nccl_file = false;
  EXPECT_THAT(faults_of(report_on(machine)), IsEmpty());
}

TEST(Check, IommuThatTranslates_IsNamedOnX86) {
  auto translate = [](const Machine& machine, PciStates* states) {
    (*states)[*machine.hcas[0].bdf].iommu_domain = "DMA-FQ";
    (*states)[*machine.hcas[4].bdf].iommu_domain = "DMA-FQ";  // the storage network's
  };
  EXPECT_THAT(faults_with_state(translate),
              ElementsAre(HasSubstr("iommu: mlx5_0: the IOMMU translates")));
  Machine arm = good_machine();
  arm.cpu.arch = "arm64";
  PciStates states = good_states(arm);
  translate(arm, &states);
  EXPECT_THAT(faults_of(report_on(arm, states)), IsEmpty());
}

TEST(Check, SmallBar_IsNamedByPeersOrByTheModelsName) {
  auto shrink = [](const Machine& machine, PciStates* states) {
    (*states)[machine.gpus[1].bdf].largest_bar = uint64_t{1} << 28;
  };
  EXPECT_THAT(faults_with_state(shrink),
              ElementsAre(AllOf(HasSubstr("bar: GPU1 (0000:15:00.0): its largest BAR shows 0.25"),
                                HasSubstr("its peers show"))));
  Machine single = good_machine();
  single.gpus.resize(1);
  PciStates states = good_states(single);
  states[single.gpus[0].bdf].largest_bar = uint64_t{1} << 28;
  EXPECT_THAT(faults_of(report_on(single, states)), IsEmpty());
  single.gpus[0].model = "NVIDIA H100 80GB HBM3";
  EXPECT_THAT(faults_of(report_on(single, states)),
              ElementsAre(HasSubstr("0.25 GiB of the 80 GB of its memory")));
  states[single.gpus[0].bdf].largest_bar = uint64_t{1} << 37;
  EXPECT_THAT(faults_of(report_on(single, states)), IsEmpty());
}

TEST(Check, ReadRequestSmallerThanThatOfPeers_IsNamed) {
  EXPECT_THAT(faults_with_state([](const Machine& machine, PciStates* states) {
                (*states)[*machine.hcas[2].bdf].max_read_request = 512;
              }),
              ElementsAre(HasSubstr("read-request: mlx5_2 (0000:54:00.0): Max_Read_Request_Size "
                                    "is 512 bytes, that of its peers 4096")));
}

TEST(Check, ReadRequestsThatAreAllModerate_AreANote) {
  const Machine machine = good_machine();
  PciStates states = good_states(machine);
  for (auto& [bdf, state] : states) state.max_read_request = 512;
  const CheckReport report = report_on(machine, states);
  EXPECT_THAT(faults_of(report), IsEmpty());
  EXPECT_THAT(report.notes, Contains(HasSubstr("below the 4096 bytes")));
  for (auto& [bdf, state] : states) state.max_read_request = 256;
  EXPECT_THAT(faults_of(report_on(machine, states)), ::testing::SizeIs(4));
}

TEST(Check, FindingsOfTheDecision_AreFaultsOrNotes) {
  Inspection inspection{scene_of(good_machine()), {}, 1, "/sys"};
  inspection.decision.findings = {{Severity::kInfo, "", "an info", ""},
                                  {Severity::kWarning, "NCCL_IB_X", "is wrong", ""},
                                  {Severity::kWarning, "GPU0 and mlx5_0", "ACS redirects", ""}};
  const CheckReport report = check_machine(inspection, {});
  EXPECT_THAT(faults_of(report), ElementsAre("acs: GPU0 and mlx5_0: ACS redirects",
                                             "diagnostic: NCCL_IB_X: is wrong"));
  EXPECT_THAT(report.notes, Contains("an info"));
}

TEST(Check, SlowLinkThatTheDecisionWarnsOf_IsOneFault) {
  Inspection inspection{scene_of(good_machine()), {}, 0, "/sys"};
  inspection.decision.findings = {
      {Severity::kWarning, "mlx5_1:1", "the link runs at 100 Gb/s, where rails on others", ""}};
  EXPECT_THAT(faults_of(check_machine(inspection, {})), IsEmpty());
}

TEST(Check, SeveralFaults_AreSortedByWeight) {
  const std::vector<std::string> faults = faults_with([](Machine* machine) {
    machine->hcas[1].ports[0].speed_mbps = 200000;
    machine->gpus[3].link.width = 8;
    machine->gpus[5].nvlinks[0].count = 16;
    machine->hcas[0].gpudirect = false;
  });
  EXPECT_THAT(faults, ElementsAre(HasSubstr("no-gpudirect: "), HasSubstr("nvlink: "),
                                  HasSubstr("link-width: "), HasSubstr("port-speed: ")));
}

TEST(ShortList, MoreThanFour_AreCounted) {
  EXPECT_EQ(short_list({}), "");
  EXPECT_EQ(short_list({"a", "b", "c", "d"}), "a, b, c, d");
  EXPECT_EQ(short_list({"a", "b", "c", "d", "e"}), "a, b, c and 2 more");
}

TEST(Check, VirtualFunction_IsNoPeerOfPhysicalOnes) {
  auto change = [](Machine* machine) {
    machine->hcas[1].physical_function = machine->hcas[0].bdf;
    machine->hcas[1].ports[0].speed_mbps = 100000;
  };
  EXPECT_THAT(faults_with(change), Not(Contains(HasSubstr("port-speed"))));
}

TEST(Check, UnknownNodeOnAMachineOfOneNode_IsNoFault) {
  Machine machine = flat(2, 1);
  machine.numa_nodes.resize(1);
  for (Gpu& gpu : machine.gpus) gpu.at.numa = -1;
  ASSERT_GE(machine.numa_nodes[0].id, 0);
  EXPECT_THAT(faults_of(report_on(machine)), Not(Contains(HasSubstr("numa-node"))));
  machine.numa_nodes.push_back(machine.numa_nodes[0]);
  machine.numa_nodes[1].id = 1;
  EXPECT_THAT(faults_of(report_on(machine)), Contains(HasSubstr("numa-node")));
}

TEST(Check, SmallBarOfAGpuWithC2c_IsNoFault) {
  Machine machine = good_machine();
  machine.gpus[1].model = "NVIDIA GH200 96GB";
  PciStates states = good_states(machine);
  states[machine.gpus[1].bdf].largest_bar = uint64_t{1} << 28;
  EXPECT_THAT(faults_of(report_on(machine, states)), Contains(HasSubstr("bar: GPU1 ")));
  machine.gpus[1].c2c_links = 10;
  EXPECT_THAT(faults_of(report_on(machine, states)), Not(Contains(HasSubstr("bar: GPU1 "))));
}

// The HCAs are of two models, so that neither is called slow.
TEST(CheckMachine, ChoiceThatNoSettingChanges_NamesWhatToLookAt) {
  Machine machine = good_machine();
  machine.hcas[2].ids.device += 1;
  machine.hcas[2].ports[0].speed_mbps = 200000;
  const CheckReport report = report_on(machine);
  ASSERT_FALSE(report.faults.empty());
  EXPECT_EQ(report.faults[0].check, Check::kNcclChoice);
  EXPECT_THAT(
      report.faults[0].finding.fix,
      AllOf(HasSubstr("look at the slot and the port of mlx5_2:1"), HasSubstr("move its card")));
}

}  // namespace
}  // namespace gdr::tools::topo
