#include "tests/unit/tools/doctor/checked_machine.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

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

// Port 2 of the storage network is down in each of these machines.
TEST(CheckPorts, PortsThatAreDown_AreNamedUnlessAllSecondOnesAre) {
  EXPECT_THAT(found_on(with_second_ports(false)), IsEmpty());
  EXPECT_THAT(found_on(with_second_ports(true)), IsEmpty());
  Machine machine = with_second_ports(false);
  machine.hcas[2].ports[1].state = Port::State::kActive;
  EXPECT_THAT(found_on(machine),
              ElementsAre(HasSubstr("port-down: mlx5_0:2: "), HasSubstr("port-down: mlx5_1:2: "),
                          HasSubstr("port-down: mlx5_3:2: ")));
  machine = good_machine();
  machine.hcas[1].ports[0].state = Port::State::kDown;
  EXPECT_THAT(found_on(machine),
              Contains(HasSubstr("port-down: mlx5_1:1: the port is down, and rail 1 with it")));
  for (size_t i = 0; i < 4; ++i) machine.hcas[i].ports[0].state = Port::State::kDown;
  EXPECT_THAT(found_on(machine), Contains(HasSubstr("port-down: mlx5_0:1: ")));
}

TEST(CheckPorts, SlowPortsAndLinkLayers_NameTheFew) {
  const char* slow =
      "slow-link: mlx5_1:1: the port runs at 200 Gb/s, its peers mlx5_0:1, "
      "mlx5_2:1, mlx5_3:1 at up to 400 Gb/s. Fix: look at the cable";
  auto slow_on = [](Port::LinkLayer layer) {
    return [layer](Machine* machine) {
      machine->hcas[1].ports[0].speed_mbps = 200000;
      machine->hcas[1].ports[0].link_layer = layer;
    };
  };
  expect_found({
      {"slower", [](Machine* machine) { machine->hcas[1].ports[0].speed_mbps = 200000; }, {slow}},
      {"slower than the file states",
       [](Machine* machine) {
         for (size_t i = 0; i < 4; ++i) machine->hcas[i].ports[0].link_mbps = 400000;
         machine->hcas[1].ports[0].link_mbps = 200000;
       },
       {slow}},
      {"of another model",
       [](Machine* machine) {
         machine->hcas[1].ports[0].speed_mbps = 200000;
         machine->hcas[1].ids.device = 0x101b;
       },
       {}},
      {"of another link layer", slow_on(Port::LinkLayer::kEthernet), {"link-layer: mlx5_1:1: "}},
      {"of the same link layer", slow_on(Port::LinkLayer::kInfiniBand), {slow}},
      {"one Ethernet",
       [](Machine* machine) { machine->hcas[3].ports[0].link_layer = Port::LinkLayer::kEthernet; },
       {"link-layer: mlx5_3:1: link layer Ethernet, that of the other rails is InfiniBand. Fix: if "
        "they should be of one network: mlxconfig"}},
      {"as many of both",
       [](Machine* machine) {
         for (size_t i : {1, 3}) {
           machine->hcas[i].ports[0].link_layer = Port::LinkLayer::kEthernet;
         }
       },
       {"link-layer: mlx5_0:1, mlx5_2:1: link layer InfiniBand, that of mlx5_1:1, mlx5_3:1 is "
        "Ethernet. Fix: if they should be of one network: mlxconfig -d PCI set LINK_TYPE_P1=1 for "
        "InfiniBand, 2 for Ethernet, then reboot; if not: export NCCL_IB_HCA=^=mlx5_0:1,mlx5_2:1 "
        "or export NCCL_IB_HCA=^=mlx5_1:1,mlx5_3:1, whichever is not for NCCL"}},
      {"all Ethernet",
       [](Machine* machine) {
         for (Hca& hca : machine->hcas) hca.ports[0].link_layer = Port::LinkLayer::kEthernet;
       },
       {}},
  });
}

// HCAs on the CPU become rails where those below the switches are missing; virtual functions are no
// peers of physical ones.
TEST(CheckPorts, SlowPortThatReplacesAMissingHcaOrIsVirtual_GetsNoAdviceOnItsCable) {
  Machine machine = good_machine();
  machine.hcas[3].at.parent = machine.hcas[2].at.parent = -1;
  machine.hcas[3].ports[0].speed_mbps = 100000;
  const std::vector<std::string> found = found_on(machine);
  EXPECT_THAT(found, Contains(HasSubstr("no HCA is below the same PCIe switch")));
  EXPECT_THAT(found, Not(Contains(HasSubstr("cable"))));
  machine = good_machine();
  machine.hcas[1].physical_function = machine.hcas[0].bdf;
  machine.hcas[1].ports[0].speed_mbps = 100000;
  EXPECT_THAT(found_on(machine), Not(Contains(HasSubstr("slow-link"))));
}

TEST(CheckPorts, WithoutGpuDirect_NameTheDeviceAndTheFixOfItsVendor) {
  expect_found({
      {"HCA",
       [](Machine* machine) { machine->hcas[0].gpudirect = false; },
       {"no-gpudirect: mlx5_0: cannot register GPU memory"}},
      {"unknown", [](Machine* machine) { machine->hcas[0].gpudirect.reset(); }, {}},
      {"GPUs of another vendor",
       [](Machine* machine) {
         for (Gpu& gpu : machine->gpus) {
           gpu.ids.vendor = 0x1002;
           gpu.gpudirect = false;
         }
       },
       {"on the GPU. Fix: use a kernel and a GPU driver with dma-buf and peer-to-peer DMA"}},
      {"in a file without GUIDs, where peers with GPUDirect RDMA show that it is no interface",
       [](Machine* machine) {
         machine->nccl_file = true;
         for (Hca& hca : machine->hcas) hca.guid = 0;
         machine->hcas[1].gpudirect = false;
       },
       {"no-gpudirect: mlx5_1: cannot register GPU memory"}},
      {"in a file, of an interface by its name",
       [](Machine* machine) {
         machine->nccl_file = true;
         for (Hca& hca : machine->hcas) hca.guid = 0;
         machine->hcas[1].gpudirect = false;
         machine->hcas[1].name = "eth0";
       },
       {}},
  });
}

// NCCL's files list network interfaces that it uses by sockets like HCAs.
TEST(CheckPorts, NetworkInterfacesInAFileOfNccl_AreNotNamed) {
  Machine machine = good_machine();
  for (Hca& hca : machine.hcas) hca.gpudirect = false;
  machine.hcas[1].guid = 1;  // NCCL numbers them
  for (Gpu& gpu : machine.gpus) gpu.gpudirect = false;
  machine.nccl_file = true;
  EXPECT_THAT(found_on(machine), Not(Contains(HasSubstr("no-gpudirect"))));
  machine.hcas[2].guid = 0x946dae0300112233;
  const std::vector<std::string> found = found_on(machine);
  EXPECT_THAT(found, Contains(HasSubstr("no-gpudirect: mlx5_2: cannot register GPU memory")));
  EXPECT_THAT(found, Contains(HasSubstr("no-gpudirect: GPU0, ")));
}

TEST(CheckPorts, ListThatIsSet_IsNotReplaced) {
  Machine machine = good_machine();
  machine.hcas[1].ports[0].state = Port::State::kDown;
  machine.hcas[3].ports[0].link_layer = Port::LinkLayer::kEthernet;
  Host host;
  host.environment["NCCL_IB_HCA"] = "mlx5_1,mlx5_3";
  host.inspection = topo::Inspection{topology::scene_of(machine, {}), {}, "/sys"};
  judge_topology(&host);
  for (const char* port : {"mlx5_1:1", "mlx5_3:1"}) {
    EXPECT_THAT(host.findings, Contains(::testing::Field(
                                   &Finding::fix, HasSubstr(std::string("leave ") + port +
                                                            " out in NCCL_IB_HCA=mlx5_1,mlx5_3"))));
  }
}

}  // namespace
}  // namespace gdr::tools::doctor
