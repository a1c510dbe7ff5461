#include <gmock/gmock.h>

#include "tests/unit/tools/doctor/made_fabric.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;

// Adds a network function of NVIDIA's, with that driver if it is not empty.
void add_function(MadeFabric* made, const std::string& address, const std::string& driver) {
  const std::string folder = "/sys/devices/pci0000:3a/" + address;
  made->write(folder + "/vendor", "0x15b3\n");
  made->write(folder + "/device", "0x1021\n");
  made->write(folder + "/class", "0x020700\n");
  made->link("/sys/bus/pci/devices/" + address, folder);
  if (!driver.empty()) made->link(folder + "/driver", "/sys/bus/pci/drivers/" + driver);
}

TEST(RdmaDevices, OpenedByVerbs_AreOk) {
  MadeFabric made;
  made.add_infiniband();
  EXPECT_EQ(worst_of(rdma_devices(), made.host).evidence, "mlx5_core, 1 port");
}

TEST(RdmaDevices, MachineWithoutHca_IsUnknownAndSaysSo) {
  MadeFabric made;
  std::filesystem::create_directories(made.host.path("/sys/class"));
  const Observation seen = worst_of(rdma_devices(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kUnknown);
  EXPECT_THAT(seen.evidence, HasSubstr("this machine has no RDMA device"));
}

TEST(RdmaDevices, WithoutSysfs_IsUnknown) {
  MadeHost made;
  std::filesystem::remove_all(made.host.path("/sys"));
  EXPECT_EQ(worst_of(rdma_devices(), made.host).evidence, "there is no /sys/class");
}

TEST(RdmaDevices, HcaWithoutDriver_IsAFailure) {
  MadeFabric made;
  made.add_rails();
  add_function(&made, "0000:3b:00.0", "");
  const Observation seen = worst_of(rdma_devices(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kFailure);
  EXPECT_EQ(seen.subject, "0000:3b:00.0 (15b3:1021)");
  EXPECT_THAT(seen.fix, HasSubstr("modprobe mlx5_core"));
}

TEST(RdmaDevices, HcaWithoutRdmaModule_IsAFailureWithAStep) {
  MadeFabric made;
  made.add_rails();
  add_function(&made, "0000:3b:00.0", "mlx5_core");
  const Observation seen = worst_of(rdma_devices(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kFailure);
  ASSERT_EQ(seen.steps.size(), 1u);
  EXPECT_EQ(seen.steps[0].command, "modprobe mlx5_ib");
}

TEST(RdmaDevices, HcaOfAVirtualMachine_IsOk) {
  MadeFabric made;
  add_function(&made, "0000:3b:00.0", "vfio-pci");
  EXPECT_EQ(verdict_of(rdma_devices(), made.host), Verdict::kOk);
}

TEST(RdmaDevices, NetworkCardWithoutGpus_IsAWarning) {
  MadeFabric made;
  add_function(&made, "0000:3b:00.0", "mlx5_core");
  EXPECT_EQ(verdict_of(rdma_devices(), made.host), Verdict::kWarning);
}

TEST(RdmaDevices, BondedPorts_AreOneDevice) {
  MadeFabric made;
  made.add_roce();
  made.hca(0).pci = "0000:3b:00.0";
  add_function(&made, "0000:3b:00.0", "mlx5_core");
  add_function(&made, "0000:3b:00.1", "mlx5_core");
  EXPECT_EQ(verdict_of(rdma_devices(), made.host), Verdict::kOk);
}

TEST(RdmaDevices, LibraryThatCannotBeLoaded_IsAFailureWithThePackage) {
  MadeFabric made;
  made.add_infiniband();
  made.host.ports.verbs_error = "libibverbs.so.1: cannot open shared object file";
  EXPECT_THAT(worst_of(rdma_devices(), made.host).fix, HasSubstr("libibverbs1"));
}

TEST(RdmaDevices, OneOfAModelWithoutRdmaDevice_IsAWarning) {
  MadeFabric made;
  made.add_infiniband();
  made.hca(0).pci = "0000:3b:00.0";
  add_function(&made, "0000:3b:00.0", "mlx5_core");
  EXPECT_EQ(verdict_of(rdma_devices(), made.host), Verdict::kOk);
  add_function(&made, "0000:3c:00.0", "");
  const Observation seen = worst_of(rdma_devices(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kWarning);
  EXPECT_EQ(seen.subject, "0000:3c:00.0 (15b3:1021)");
}

TEST(RdmaDevices, NotListedByVerbs_IsAFailure) {
  MadeFabric made;
  made.add_infiniband();
  made.hca(0).in_verbs = false;
  EXPECT_EQ(verdict_of(rdma_devices(), made.host), Verdict::kFailure);
}

TEST(RdmaDevices, NotOpened_IsAFailureWithTheReason) {
  MadeFabric made;
  made.add_infiniband();
  made.hca(0).open_error = "Permission denied";
  EXPECT_THAT(worst_of(rdma_devices(), made.host).evidence, HasSubstr("Permission denied"));
}

}  // namespace
}  // namespace gdr::tools::doctor
