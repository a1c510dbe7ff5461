#include "topology/sources/sysfs.h"

#include <gmock/gmock.h>

#include "tests/unit/topology/machine_checks.h"
#include "tests/unit/topology/sources/made_sysfs.h"
#include "topology/sources/hwloc.h"

namespace gdr::topology {
namespace {

constexpr char kGpuClass[] = "0x030200";
constexpr char kNic[] = "0x020700";
constexpr char kBridge[] = "0x060400";

class Sysfs : public MadeSysfs {
 protected:
  // A PCI function with the files that are read, `path` below devices/.
  fs::path function(const std::string& path, const std::string& class_code,
                    const std::string& vendor = "0x10de", const std::string& numa = "0") {
    fs::path folder = device(path, "pci");
    write(folder / "class", class_code + "\n");
    write(folder / "vendor", vendor + "\n");
    write(folder / "device", "0x2330\n");
    write(folder / "subsystem_vendor", vendor + "\n");
    write(folder / "subsystem_device", "0x16c1\n");
    write(folder / "max_link_speed", "32.0 GT/s PCIe\n");
    write(folder / "max_link_width", "16\n");
    write(folder / "numa_node", numa + "\n");
    link("bus/pci/devices" / folder.filename(), folder);
    return folder;
  }
  void port(const std::string& hca, int number, const std::string& state, const std::string& rate) {
    std::string folder = "class/infiniband/" + hca + "/ports/" + std::to_string(number);
    write(folder + "/state", state + "\n");
    write(folder + "/rate", rate + "\n");
    write(folder + "/link_layer", "Ethernet\n");
  }
  void cpu(int number, int package) {
    write("devices/system/cpu/cpu" + std::to_string(number) + "/topology/physical_package_id",
          std::to_string(package) + "\n");
  }
  void node(int number, const std::string& cpumap) {
    write("devices/system/node/node" + std::to_string(number) + "/cpumap", cpumap + "\n");
  }
  // A switch below a root port: two GPUs and a NIC on its ports.
  void make_switch() {
    const std::string up = "pci0000:15/0000:15:01.0/0000:16:00.0";
    function("pci0000:15/0000:15:01.0", kBridge, "0x8086");
    function(up, kBridge, "0x1000");
    for (int i = 0; i < 3; ++i) {
      std::string down = up + "/0000:17:0" + std::to_string(i) + ".0";
      function(down, kBridge, "0x1000");
      std::string below = down + "/0000:1" + "89a"[i] + ":00.0";
      function(below, i == 0 ? kNic : kGpuClass, i == 0 ? "0x15b3" : "0x10de");
    }
    hca("mlx5_0", "devices/" + up + "/0000:17:00.0/0000:18:00.0");
  }
  Machine read() { return checked(sysfs_machine(root_)); }
};

TEST_F(Sysfs, Read_Switch_IsItsUpstreamPort) {
  make_switch();
  node(0, "3");
  Machine machine = read();
  EXPECT_EQ(counts_of(machine), (Counts{2, 1, 1, 1}));
  EXPECT_EQ(switch_above(machine, machine.gpus[0].at), "0000:16:00.0");
  EXPECT_EQ(machine.gpus[0].at, machine.gpus[1].at);
  EXPECT_EQ(machine.gpus[0].at, machine.hcas[0].at);
  EXPECT_EQ(machine.host_bridges, (std::vector<HostBridge>{{0, 0x15}}));
  EXPECT_EQ(machine.switches[0].ids.vendor, 0x1000);
  EXPECT_EQ(machine.switches[0].class_code, 0x060400u);
}

TEST_F(Sysfs, Read_SwitchCabledToAnother_HasItAsPeer) {
  make_switch();
  function("pci0000:25/0000:26:00.0", kBridge, "0x1000");
  const std::string links = "kernel/pci_switch_link/virtual_switch_links/0000:16:00.0/";
  for (const char* name : {"0000:26:00.0", "0000:99:00.0", "uevent"}) write(links + name, "");
  EXPECT_EQ(read().switches.at(0).peers, (std::vector<Bdf>{Bdf::parse("0000:26:00.0").value()}));
  write("devices/pci0000:15/0000:15:01.0/0000:16:00.0/vendor", "0x11f8\n");
  EXPECT_TRUE(read().switches.at(0).peers.empty());
}

TEST_F(Sysfs, Read_Gpu_HasTheValuesOfItsFiles) {
  function("pci0000:3a/0000:3a:01.0", kBridge, "0x8086");
  function("pci0000:3a/0000:3a:01.0/0000:3b:00.0", kGpuClass, "0x10de", "1");
  Machine machine = read();
  ASSERT_EQ(machine.gpus.size(), 1u);
  const Gpu& gpu = machine.gpus[0];
  EXPECT_EQ(gpu.bdf.to_string(), "0000:3b:00.0");
  EXPECT_EQ(gpu.class_code, 0x030200u);
  EXPECT_EQ(gpu.ids, (PciIds{0x10de, 0x2330, 0x10de, 0x16c1}));
  EXPECT_EQ(gpu.link, (PciLink{32, 16}));
  EXPECT_EQ(gpu.at.parent, -1);
  EXPECT_EQ(numa_id(machine, gpu.at), 1);
}

// NCCL puts a tree of switches on the node that its topmost switch states.
TEST_F(Sysfs, Read_GpuBelowASwitch_IsOnTheNodeOfTheSwitch) {
  std::string path = "pci0000:15";
  for (const char* bridge : {"0000:15:01.0", "0000:16:00.0", "0000:17:00.0"}) {
    path += std::string("/") + bridge;
    function(path, kBridge, "0x1000", bridge[6] == '6' ? "1" : "2");
  }
  function(path + "/0000:18:00.0", kGpuClass, "0x10de", "3");
  Machine machine = read();
  EXPECT_EQ(numa_id(machine, machine.gpus.at(0).at), 1);
  EXPECT_EQ(numa_id(machine, machine.switches.at(0).at), 1);
}

TEST_F(Sysfs, Read_DistancesOfNodes_AreThoseBetweenNodesWithCpus) {
  node(0, "3");
  node(1, "0");  // of memory only
  node(2, "c");
  write("devices/system/node/node0/distance", "10 13 21\n");
  write("devices/system/node/node2/distance", "21 x\n");
  Machine machine = read();
  EXPECT_EQ(machine.numa_nodes.at(0).distances, (std::map<int, int>{{0, 10}, {2, 21}}));
  EXPECT_EQ(machine.numa_nodes.at(1).distances, (std::map<int, int>{{0, 21}}));
}

// As NCCL reads the two files: a speed that is missing is no limit, a width that is missing is 0.
TEST_F(Sysfs, Read_Link_IsTheLesserOfFunctionAndSlot) {
  fs::path slot = function("pci0000:3a/0000:3a:01.0", kBridge, "0x8086");
  fs::path folder = function("pci0000:3a/0000:3a:01.0/0000:3b:00.0", kGpuClass);
  struct Case {
    const char *speed, *width, *slot_speed, *slot_width;
    PciLink link;
  };
  for (const Case& one : {Case{"32.0 GT/s PCIe", "8", "16.0 GT/s PCIe", "16", {16, 8}},
                          Case{"32.0 GT/s PCIe", "8", "64.0 GT/s PCIe", "4", {32, 4}},
                          Case{"Unknown", "16", "32.0 GT/s PCIe", "0", {32, 0}},
                          Case{"Unknown", "16", "Unknown", "4", {0, 4}}}) {
    write(folder / "max_link_speed", std::string(one.speed) + "\n");
    write(folder / "max_link_width", std::string(one.width) + "\n");
    write(slot / "max_link_speed", std::string(one.slot_speed) + "\n");
    write(slot / "max_link_width", std::string(one.slot_width) + "\n");
    EXPECT_EQ(read().gpus.at(0).link, one.link) << one.speed << " " << one.slot_speed;
  }
}

TEST_F(Sysfs, Read_LinkOnTheRootBus_HasNoWidth) {
  fs::path folder = function("pci0000:00/0000:00:05.0", kGpuClass, "0x10de", "-1");
  Machine machine = read();
  EXPECT_EQ(machine.gpus.at(0).link, (PciLink{32, 0}));
  EXPECT_EQ(numa_id(machine, machine.gpus[0].at), -1);
  EXPECT_TRUE(machine.sysfs);
  write(folder / "max_link_speed", "Unknown\n");
  EXPECT_EQ(read().gpus.at(0).link, PciLink{});
}

TEST_F(Sysfs, Read_NodesAndPackages_AreThoseOfTheCpus) {
  for (int i = 0; i < 4; ++i) cpu(i, i / 2 + 4);
  node(0, "00000000,00000003");
  node(1, "00000000,0000000c");
  node(2, "00000000,00000000");  // of memory only
  node(3, "00000000,00000006");  // over both packages
  Machine machine = read();
  EXPECT_EQ(machine.packages, (std::vector<Package>{{4}, {5}}));
  EXPECT_EQ(machine.numa_nodes, (std::vector<NumaNode>{{0, 0, "00000000,00000003"},
                                                       {1, 1, "00000000,0000000c"},
                                                       {3, -1, "00000000,00000006"}}));
}

TEST_F(Sysfs, Read_Cpuinfo_GivesTheCpu) {
  function("pci0000:00/0000:00:05.0", kGpuClass);
  write("../proc/cpuinfo",
        "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n"
        "model name\t: Intel(R) Xeon(R)\n\nprocessor\t: 1\nmodel\t\t: 7\n");
  EXPECT_EQ(read().cpu, (Cpu{"x86_64", "GenuineIntel", 6, 143}));
}

TEST_F(Sysfs, Read_Hca_HasItsPortsAndGuid) {
  make_switch();
  port("mlx5_0", 1, "4: ACTIVE", "400 Gb/sec (4X NDR)");
  port("mlx5_0", 2, "1: DOWN", "2.5 Gb/sec (1X SDR)");
  write("class/infiniband/mlx5_0/ports/2/link_layer", "InfiniBand\n");
  write("class/infiniband/mlx5_0/node_guid", "0c42:a103:0055:62a3\n");
  write("class/infiniband/mlx5_0/sys_image_guid", "0c42:a103:0055:62a2\n");
  Machine machine = read();
  const Hca& hca = hca_named(machine, "mlx5_0");
  EXPECT_EQ(hca.guid, 0x0c42a103005562a2u);
  EXPECT_EQ(hca.bdf->to_string(), "0000:18:00.0");
  EXPECT_EQ(hca.link, (PciLink{32, 16}));
  EXPECT_EQ(hca.ports,
            (std::vector<Port>{{1, Port::State::kActive, 400000, Port::LinkLayer::kEthernet},
                               {2, Port::State::kDown, 2500, Port::LinkLayer::kInfiniBand}}));
}

TEST_F(Sysfs, Read_VirtualFunctionHca_NamesItsPhysicalFunction) {
  fs::path physical = function("pci0000:3a/0000:3a:00.0", kNic, "0x15b3");
  fs::path virtual_function = function("pci0000:3a/0000:3a:00.2", kNic, "0x15b3");
  link(virtual_function / "physfn", physical);
  hca("mlx5_0", physical);
  hca("mlx5_1", virtual_function);
  Machine machine = read();
  EXPECT_FALSE(hca_named(machine, "mlx5_0").physical_function.has_value());
  EXPECT_EQ(hca_named(machine, "mlx5_1").physical_function, Bdf::parse("0000:3a:00.0"));
}

TEST_F(Sysfs, Read_OtherDisplaysAndVirtualFunctions_AreNoGpus) {
  function("pci0000:00/0000:00:02.0", "0x030000", "0x1a03");
  function("pci0000:00/0000:00:03.0", "0x040300", "0x10de");
  const fs::path physical = function("pci0000:00/0000:00:04.0", "0x120000", "0x1002");
  link(function("pci0000:00/0000:00:04.4", kGpuClass) / "physfn", physical);
  Machine machine = read();
  ASSERT_EQ(machine.gpus.size(), 1u);
  EXPECT_EQ(machine.gpus[0].bdf, (Bdf{0, 0, 4, 0}));
}

TEST_F(Sysfs, Read_VirtualHca_IsAttachedWithItsInterface) {
  fs::path nic = function("pci0000:15/0000:15:03.0", "0x020000", "0x8086", "1");
  link("class/net/eth0/device", nic);
  virtual_hca("rxe0", "eth0\n");
  Machine machine = read();
  EXPECT_EQ(hca_named(machine, "rxe0").bdf, Bdf::parse("0000:15:03.0"));
  EXPECT_EQ(numa_id(machine, machine.hcas.at(0).at), 1);
}

TEST_F(Sysfs, Read_HcaOnNoFunction_IsOnTheFirstNodeOrTheFirstGpus) {
  node(3, "2");
  node(2, "1");
  virtual_hca("rxe0", "lo\n");
  Machine machine = read();
  EXPECT_FALSE(machine.hcas.at(0).bdf.has_value());
  EXPECT_EQ(numa_id(machine, machine.hcas[0].at), 2);
  function("pci0000:00/0000:00:06.0", kGpuClass, "0x10de", "3");
  function("pci0000:00/0000:00:05.0", kGpuClass, "0x10de", "-1");
  machine = read();
  EXPECT_EQ(numa_id(machine, machine.hcas.at(0).at), -1);
}

TEST_F(Sysfs, Read_BehindVmd_IsBelowVmdsOwnBus) {
  function("pci0000:00/0000:00:0e.0", "0x010400", "0x8086");
  function("pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0", kBridge, "0x8086");
  function("pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0/10000:e1:00.0", kGpuClass);
  Machine machine = read();
  ASSERT_EQ(machine.gpus.size(), 1u);
  EXPECT_EQ(machine.gpus[0].at.parent, -1);
  EXPECT_EQ(machine.host_bridges, (std::vector<HostBridge>{{0x10000, 0xe0}}));
}

TEST_F(Sysfs, Read_HostBridgeBelowAPlatformDevice_IsFound) {
  function("platform/bus@0/pci000a:00/000a:00:00.0", kBridge);
  function("platform/bus@0/pci000a:00/000a:00:00.0/000a:01:00.0", kGpuClass);
  // Links that dangle are ignored.
  link("bus/pci/devices/0000:01:00.0", "devices/gone");
  link("class/infiniband/mlx5_0", "devices/gone");
  EXPECT_EQ(read().host_bridges, (std::vector<HostBridge>{{0xa, 0}}));
  EXPECT_EQ(read().gpus.size(), 1u);
}

TEST_F(Sysfs, Read_NoSysfs_IsAnError) {
  auto machine = sysfs_machine(root_ / "none");
  ASSERT_FALSE(machine.has_value());
  EXPECT_NE(machine.error().text.find("none is not a readable sysfs"), std::string::npos);
  EXPECT_FALSE(sysfs_machine(root_).has_value());  // an empty folder
}

// hwloc reads the same files, and more of them.
class HwlocOfSysfs : public Sysfs {
 protected:
  void SetUp() override {
    Sysfs::SetUp();
    setenv("HWLOC_FSROOT", top_.c_str(), 1);
    std::string cpuinfo;
    for (int i = 0; i < 4; ++i) {
      cpu(i, i / 2);
      cpuinfo += "processor\t: " + std::to_string(i) +
                 "\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n\n";
      std::string topology = "devices/system/cpu/cpu" + std::to_string(i) + "/topology/";
      write(topology + "core_id", std::to_string(i) + "\n");
      write(topology + "thread_siblings", mask(1 << i));
      write(topology + "core_siblings", mask(i < 2 ? 3 : 12));
      write("devices/system/cpu/cpu" + std::to_string(i) + "/online", "1\n");
    }
    write("devices/system/cpu/online", "0-3\n");
    write("devices/system/cpu/possible", "0-3\n");
    write("devices/system/node/online", "0-1\n");
    for (int i = 0; i < 2; ++i) {
      node(i, i == 0 ? "00000003" : "0000000c");
      write("devices/system/node/node" + std::to_string(i) + "/meminfo", "MemTotal: 1024 kB\n");
      write("devices/system/node/node" + std::to_string(i) + "/distance",
            i == 0 ? "10 21\n" : "21 10\n");
    }
    write("../proc/cpuinfo", cpuinfo);
    write("../proc/hwloc-nofile-info", "OSName: Linux\nArchitecture: x86_64\n");
  }
  void TearDown() override {
    unsetenv("HWLOC_FSROOT");
    Sysfs::TearDown();
  }
  static std::string mask(int bits) {
    return "0000000" + std::string(1, "0123456789abc"[bits]) + "\n";
  }
  // The first bytes of its configuration space, from which hwloc learns the bridge's buses.
  void bridge_config(const fs::path& folder, char own, char first, char last) {
    std::string config(256, '\0');
    config[0x0b] = 0x06;
    config[0x0a] = 0x04;
    config[0x0e] = 1;
    config[0x18] = own;
    config[0x19] = first;
    config[0x1a] = last;
    write(folder / "config", config);
  }
};

TEST_F(HwlocOfSysfs, Live_Switch_EqualsSysfs) {
  make_switch();
  const fs::path root_port = "devices/pci0000:15/0000:15:01.0";
  bridge_config(root_port, 0x15, 0x16, 0x1a);
  bridge_config(root_port / "0000:16:00.0", 0x16, 0x17, 0x1a);
  for (int i = 0; i < 3; ++i) {
    bridge_config(root_port / "0000:16:00.0" / ("0000:17:0" + std::to_string(i) + ".0"), 0x17,
                  static_cast<char>(0x18 + i), static_cast<char>(0x18 + i));
  }
  fs::path physical = function("pci0000:85/0000:85:03.0", kGpuClass, "0x10de", "1");
  link(function("pci0000:85/0000:85:03.4", kGpuClass, "0x10de", "1") / "physfn", physical);
  virtual_hca("rxe0", "lo\n");
  port("mlx5_0", 1, "4: ACTIVE", "400 Gb/sec (4X NDR)");
  Machine sysfs = read();
  auto live = hwloc_live();
  ASSERT_TRUE(live.has_value()) << live.error().text;
  expect_consistent(*live);
  EXPECT_EQ(counts_of(*live), (Counts{3, 2, 1, 2}));
  EXPECT_TRUE(live->sysfs);
  EXPECT_EQ(live->cpu, sysfs.cpu);
  EXPECT_EQ(live->packages, sysfs.packages);
  EXPECT_EQ(live->numa_nodes, sysfs.numa_nodes);
  EXPECT_EQ(live->numa_nodes.at(0).distances, (std::map<int, int>{{0, 10}, {1, 21}}));
  EXPECT_EQ(live->host_bridges, sysfs.host_bridges);
  EXPECT_EQ(live->switches, sysfs.switches);
  EXPECT_EQ(live->gpus, sysfs.gpus);
  EXPECT_EQ(live->hcas, sysfs.hcas);
}

// Node 0 has a CPU of the other package: hwloc says so on stderr and gives the node all CPUs.
TEST_F(HwlocOfSysfs, Live_NodeThatCutsThroughPackages_IsAFaultOfTheSource) {
  node(0, "00000007");
  node(1, "00000008");
  function("pci0000:15/0000:15:01.0", kGpuClass);
  ::testing::internal::CaptureStderr();
  auto live = hwloc_live();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ASSERT_TRUE(live.has_value()) << live.error().text;
  EXPECT_EQ(live->numa_nodes, read().numa_nodes);
  ASSERT_EQ(live->findings.size(), 1u);
  EXPECT_THAT(live->findings[0].text, ::testing::HasSubstr("NUMA node 0"));
}

TEST_F(HwlocOfSysfs, Live_EntryWithoutLink_IsAFaultOfTheSource) {
  make_switch();
  EXPECT_TRUE(checked(hwloc_live()).findings.empty());
  const fs::path gpu = root_ / "bus/pci/devices/0000:19:00.0", folder = fs::canonical(gpu);
  fs::remove(gpu);
  fs::rename(folder, gpu);
  EXPECT_THAT(checked(hwloc_live()).findings.at(0).text, ::testing::HasSubstr("0000:19:00.0"));
}

// Without the files `config`, from which hwloc learns what is below a bridge, and copies of /sys
// may lack.
TEST_F(HwlocOfSysfs, Live_SwitchBelowSwitch_EqualsSysfs) {
  std::string path = "pci0000:35";
  const char* const bridges[] = {"0000:35:01.0", "0000:36:00.0", "0000:37:00.0", "0000:38:00.0",
                                 "0000:39:00.0"};
  for (int i = 0; i < 5; ++i) {
    path += std::string("/") + bridges[i];
    function(path, kBridge, "0x1000");
  }
  function(path + "/0000:3a:00.0", kGpuClass);
  Machine sysfs = read();
  auto live = hwloc_live();
  ASSERT_TRUE(live.has_value()) << live.error().text;
  EXPECT_EQ(live->switches, sysfs.switches);
  EXPECT_EQ(live->gpus, sysfs.gpus);
  ASSERT_EQ(counts_of(sysfs), (Counts{1, 0, 2, 2}));
  EXPECT_EQ(switch_above(sysfs, sysfs.gpus[0].at), "0000:38:00.0");
  EXPECT_EQ(switch_above(sysfs, sysfs.switches[1].at), "0000:36:00.0");
}

}  // namespace
}  // namespace gdr::topology
