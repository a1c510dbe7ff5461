#include "tools/doctor/facts/host.h"

#include <gmock/gmock.h>

#include "base/environment_swap.h"
#include "tests/unit/tools/doctor/facts/made_host.h"
#include "tests/unit/topology/machines.h"

namespace gdr::tools::doctor {
namespace {

namespace fs = std::filesystem;

TEST(Host, FolderInPlaceOfAFile_ReadsAsNothing) {
  MadeHost made;
  fs::create_directories(made.host.path("/proc/net/route"));
  EXPECT_EQ(made.host.read("/proc/net/route"), std::nullopt);
  EXPECT_EQ(made.host.line("/proc/net/route"), "");
}

TEST(Host, LargerThanAFileOfAMachine_ReadsAsNothing) {
  MadeHost made;
  made.write("/proc/modules", "nvidia");
  EXPECT_EQ(made.host.read("/proc/modules"), "nvidia");
  fs::resize_file(made.host.path("/proc/modules"), (uintmax_t{1} << 26) + 1);
  EXPECT_EQ(made.host.read("/proc/modules"), std::nullopt);
}

TEST(ReadHost, FolderInPlaceOfTheBarsOfAFunction_LeavesThemUnknown) {
  MadeHost made;
  const topology::Machine machine = topology::flat(1, 0);
  const std::string bdf = machine.gpus[0].bdf.to_string();
  fs::create_directories(made.host.path("/sys/bus/pci/devices/" + bdf + "/resource"));
  const topo::PciStates states = topo::read_pci_states(machine, made.host.path("/sys"));
  EXPECT_EQ(states.at(machine.gpus[0].bdf).largest_bar, 0u);
}

TEST(ReadHost, CopyOfAMachine_IsPredictedWithItsOwnSettings) {
  MadeHost made;
  fs::create_directories(made.host.path("/sys/devices"));
  made.write("/etc/nccl.conf", "\nNCCL_NET_GDR_LEVEL=LOC\n");
  const ScopedVariable list("NCCL_IB_HCA", "mlx5_9"), level("NCCL_NET_GDR_LEVEL", "SYS");
  const Host host = read_host(made.host.root).value();
  ASSERT_TRUE(host.inspection.has_value()) << host.inspection_error;
  EXPECT_EQ(host.inspection->settings.count("NCCL_IB_HCA"), 0u);
  EXPECT_THAT(topo::setting_text(host.inspection->settings, "NCCL_NET_GDR_LEVEL"),
              ::testing::HasSubstr("in line 2 of "));
  EXPECT_EQ(decision_of(host).prediction.settings().gdr_level, topology::PathClass::kLoc);
}

// NCCL reads the file there, too, or that of nvidia-topologyd: it has the GPU and the HCA below one
// switch, which sysfs does not.
TEST(ReadHost, CopyWithATopologyFile_HasThePathsOfTheFileAndThePortsOfSysfs) {
  const std::string daemon = "/var/run/nvidia-topologyd/virtualTopology.xml";
  const std::string pci = "/sys/devices/pci0000:00/", rdma = pci + "0000:1b:00.0/infiniband/mlx5_0";
  for (const std::string& file : {std::string(), std::string("/etc/topo.xml"), daemon}) {
    MadeHost made;
    made.write_files({{pci + "0000:1a:00.0/class", "0x030200\n"},
                      {pci + "0000:1a:00.0/vendor", "0x10de\n"},
                      {pci + "0000:1b:00.0/class", "0x020700\n"},
                      {rdma + "/ports/1/state", "4: ACTIVE\n"}});
    for (const char* bdf : {"0000:1a:00.0", "0000:1b:00.0"}) {
      made.link(std::string("/sys/bus/pci/devices/") + bdf, pci + bdf);
    }
    made.link(rdma + "/device", pci + "0000:1b:00.0");
    made.link("/sys/class/infiniband/mlx5_0", rdma);
    if (file != daemon) made.write("/etc/nccl.conf", "NCCL_TOPO_FILE=/etc/topo.xml\n");
    if (!file.empty()) {
      made.write(file,
                 R"(<system version="1"><cpu numaid="0"><pci busid="0000:17:00.0" class="0x060400">
          <pci busid="0000:1a:00.0" class="0x030200"/><pci busid="0000:1b:00.0" class="0x020700"/>
          </pci></cpu></system>)");
    }
    const Host host = read_host(made.host.root).value();
    ASSERT_TRUE(host.inspection.has_value()) << host.inspection_error;
    ASSERT_EQ(machine_of(host).gpus.size(), 1u) << file;
    ASSERT_EQ(machine_of(host).hcas.size(), 1u) << file;
    EXPECT_EQ(machine_of(host).hcas[0].name, "mlx5_0") << file;
    EXPECT_EQ(machine_of(host).hcas[0].ports.at(0).state, topology::Port::State::kActive) << file;
    EXPECT_EQ(decision_of(host).paths.gpu_hca(0, 0) == topology::PathClass::kPix, !file.empty());
  }
}

TEST(NothingOn, ReadableSys_IsNothing) {
  MadeHost made;
  EXPECT_EQ(nothing_on(made.host, "there is no GPU").verdict, Verdict::kNothing);
}

TEST(NothingOn, NoSys_IsUnknown) {
  MadeHost made;
  fs::remove_all(made.host.path("/sys"));
  EXPECT_EQ(nothing_on(made.host, "there is no GPU").verdict, Verdict::kUnknown);
  fs::create_directories(made.host.path("/sys"));
  EXPECT_EQ(nothing_on(made.host, "there is no GPU").needs, "copy /sys from the machine");
  made.host.is_live = true;
  EXPECT_EQ(nothing_on(made.host, "there is no GPU").needs, "mount /sys");
  fs::create_directories(made.host.path("/sys/bus/pci/devices"));
  EXPECT_EQ(nothing_on(made.host, "there is no GPU").verdict, Verdict::kNothing);
}

}  // namespace
}  // namespace gdr::tools::doctor
