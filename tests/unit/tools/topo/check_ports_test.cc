// Ports of HCAs, and the registration of GPU memory.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/tools/topo/checked_machine.h"

namespace gdr::tools::topo {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using topology::scene_of;

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
              ElementsAre(HasSubstr("slow-link: mlx5_1:1: the port runs at 100 Gb/s, its peers "
                                    "mlx5_0:1, mlx5_2:1, mlx5_3:1 at up to 400 Gb/s")));
}

TEST(Check, PortSlowerThanItsPeers_IsNamed) {
  EXPECT_THAT(faults_with([](Machine* machine) { machine->hcas[1].ports[0].speed_mbps = 200000; }),
              ElementsAre(HasSubstr("slow-link: mlx5_1:1: the port runs at 200 Gb/s, its peers "
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
              ElementsAre(HasSubstr("slow-link: mlx5_1:1: ")));
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

TEST(Check, VirtualFunction_IsNoPeerOfPhysicalOnes) {
  auto change = [](Machine* machine) {
    machine->hcas[1].physical_function = machine->hcas[0].bdf;
    machine->hcas[1].ports[0].speed_mbps = 100000;
  };
  EXPECT_THAT(faults_with(change), Not(Contains(HasSubstr("slow-link"))));
}

}  // namespace
}  // namespace gdr::tools::topo
