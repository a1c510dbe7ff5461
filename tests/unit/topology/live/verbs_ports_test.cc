#include "topology/live/verbs_ports.h"

#include <gmock/gmock.h>

#include "tests/unit/topology/machines.h"
#include "tests/unit/topology/sources/made_sysfs.h"
#include "topology/sources/sysfs.h"

namespace gdr::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(KeepAccepted, PortsThatAreNotAccepted_AreRemoved) {
  Machine machine;
  machine.hcas = {make_hca("mlx5_0", bdf_of(1), {}, 2), make_hca("mlx5_1", bdf_of(2), {})};
  keep_accepted(&machine,
                [](const Hca& hca, int port) { return hca.name == "mlx5_0" && port == 2; });
  ASSERT_EQ(machine.hcas.size(), 1u);
  EXPECT_EQ(machine.hcas[0].name, "mlx5_0");
  ASSERT_EQ(machine.hcas[0].ports.size(), 1u);
  EXPECT_EQ(machine.hcas[0].ports[0].number, 2);
}

VerbsPort verbs_port(const std::string& hca, int number, const std::string& sysfs_path = "") {
  VerbsPort port;
  port.hca = hca;
  port.sysfs_path = sysfs_path;
  port.number = number;
  port.active = true;
  port.speed_mbps = 100000;
  return port;
}

std::vector<std::string> names_of(const Machine& machine) {
  std::vector<std::string> names;
  for (const Hca& hca : machine.hcas) names.push_back(hca.name);
  return names;
}

TEST(ReplaceHcas, HcasWithoutAPciFunction_ReplaceThoseOfTheSource) {
  Machine machine = two_sockets_with_switches();
  VerbsPort down = verbs_port("rxe0", 2);
  down.active = false;
  down.ethernet = true;
  down.gpudirect = true;
  replace_hcas(&machine, {verbs_port("rxe1", 1), verbs_port("rxe0", 1), down});
  EXPECT_THAT(names_of(machine), ElementsAre("rxe0", "rxe1"));
  ASSERT_EQ(machine.hcas[0].ports.size(), 2u);
  EXPECT_EQ(machine.hcas[0].ports[0].state, Port::State::kActive);
  EXPECT_EQ(machine.hcas[0].ports[0].speed_mbps, 100000);
  EXPECT_EQ(machine.hcas[0].ports[1].state, Port::State::kDown);
  EXPECT_EQ(machine.hcas[0].ports[1].link_layer, Port::LinkLayer::kEthernet);
  EXPECT_EQ(machine.hcas[0].at.numa, 0);
  EXPECT_FALSE(machine.hcas[0].bdf.has_value());
}

// XDR has no code in verbs libraries that are older than it.
TEST(ReplaceHcas, SpeedOfAPort_IsThatOfTheSourceWhereItCounts) {
  struct SpeedCase {
    bool nccl_file, active;
    int verbs_mbps, mbps;
  };
  for (const SpeedCase& one : {SpeedCase{false, true, 0, 800000}, SpeedCase{false, false, 0, 0},
                               SpeedCase{false, true, 100000, 100000},
                               // What NCCL's file states goes before.
                               SpeedCase{true, true, 100000, 800000}}) {
    Machine machine = two_sockets_with_switches();
    machine.nccl_file = one.nccl_file;
    machine.hcas[0].ports[0].speed_mbps = 800000;
    VerbsPort port = verbs_port("mlx5_0", 1);
    port.active = one.active;
    port.speed_mbps = one.verbs_mbps;
    replace_hcas(&machine, {port});
    EXPECT_EQ(machine.hcas.at(0).ports.at(0).speed_mbps, one.mbps);
    if (one.nccl_file) {
      EXPECT_EQ(machine.hcas[0].ports[0].link_mbps, one.verbs_mbps);
    }
  }
}

TEST(ReplaceHcas, SpeedAndOrderOfADataDirectPort_AreFoundByItsNameInNcclsFile) {
  Machine file = two_sockets_with_switches();
  file.nccl_file = true;
  file.hcas[0].data_direct = true;
  file.hcas[0].ports[0].speed_mbps = 400000;
  file.hcas[0].ports[0].order = 3;
  VerbsPort direct = verbs_port("mlx5_0", 1);
  direct.data_path = "/none";
  replace_hcas(&file, {direct});
  EXPECT_EQ(file.hcas.at(0).name, "mlx5_0");
  EXPECT_EQ(file.hcas.at(0).ports.at(0).speed_mbps, 400000);
  EXPECT_EQ(file.hcas.at(0).ports.at(0).order, 3);
}

TEST(ReplaceHcas, EmptyMachineOrNoPort_HasWhatThereIs) {
  Machine machine;
  replace_hcas(&machine, {verbs_port("rxe0", 1)});
  EXPECT_EQ(machine.numa_nodes.size(), 1u);
  EXPECT_EQ(machine.hcas[0].at.numa, 0);
  replace_hcas(&machine, {});
  EXPECT_THAT(machine.hcas, IsEmpty());
}

class ReplaceHcasOnPci : public MadeSysfs {
 protected:
  // An RDMA device on that PCI function; returns its folder as the verbs library names it.
  std::string rdma_device(const std::string& name, const std::string& bdf) {
    auto function = device("pci0000:00/" + bdf, "pci");
    write(function / "class", "0x020700\n");
    write(function / "numa_node", "0\n");
    hca(name, function);
    return absolute("class/infiniband/" + name);
  }
};

TEST_F(ReplaceHcasOnPci, HcaThatTheSourceListsByAddress_KeepsItsSwitch) {
  std::string folder = rdma_device("mlx5_7", "0000:14:00.0");
  Machine machine = two_sockets_with_switches();  // mlx5_0 is 0000:14:00.0, below a switch
  VerbsPort port = verbs_port("mlx5_7", 1, folder);
  port.guid = 7;
  port.gpudirect = true;
  Attachment before = machine.hcas[0].at;
  replace_hcas(&machine, {port});
  ASSERT_THAT(names_of(machine), ElementsAre("mlx5_7"));
  EXPECT_EQ(machine.hcas[0].at, before);
  EXPECT_EQ(machine.hcas[0].guid, 7u);
  EXPECT_EQ(machine.hcas[0].gpudirect, true);
  machine.hcas[0].gpudirect = false;  // as the topology file may deny it
  replace_hcas(&machine, {port});
  EXPECT_EQ(machine.hcas[0].gpudirect, false);
}

TEST_F(ReplaceHcasOnPci, DataPath_IsWhereTheHcaStands) {
  std::string folder = rdma_device("mlx5_0", "0000:14:00.0");
  auto function = device("pci0000:00/0000:30:00.0", "pci");
  write(function / "class", "0x088000\n");
  Machine machine = two_sockets_with_switches();
  const Attachment own = machine.hcas[0].at;
  VerbsPort port = verbs_port("mlx5_0", 1, folder);
  port.data_path = absolute("devices/pci0000:00/0000:30:00.0");
  replace_hcas(&machine, {port});
  ASSERT_THAT(names_of(machine), ElementsAre("mlx5_0"));
  EXPECT_EQ(machine.hcas[0].bdf, Bdf::parse("0000:30:00.0").value());
  EXPECT_NE(machine.hcas[0].at, own);
}

// NCCL takes from its file what that states, and from sysfs the rest.
TEST_F(ReplaceHcasOnPci, LinkThatTheTopologyFileStates_Counts) {
  const std::string folder = rdma_device("mlx5_0", "0000:14:00.0");
  write("devices/pci0000:00/0000:14:00.0/max_link_speed", "8.0 GT/s PCIe\n");
  Machine live = two_sockets_with_switches();  // states 32 GT/s x16
  Machine file = live, partly = live;
  file.nccl_file = partly.nccl_file = true;
  partly.hcas[0].link.gt_per_s = 0;
  for (Machine* machine : {&live, &file, &partly}) {
    replace_hcas(machine, {verbs_port("mlx5_0", 1, folder)});
  }
  EXPECT_EQ(live.hcas.at(0).link.gt_per_s, 8);
  EXPECT_EQ(file.hcas.at(0).link, (PciLink{32, 16}));
  EXPECT_EQ(file.hcas.at(0).ids.device, 0x1021);
  EXPECT_EQ(partly.hcas.at(0).link, (PciLink{8, 16}));
}

}  // namespace
}  // namespace gdr::topology
