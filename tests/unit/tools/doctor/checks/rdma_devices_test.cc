#include <gmock/gmock.h>

#include <cerrno>

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

TEST(RdmaDevices, ElasticFabricAdapterAlone_IsAFailureThatNamesItsPlugin) {
  MadeFabric made;
  made.add_roce().link_layer = "Unspecified";
  made.hca(0).node_type = "7: unspecified";
  made.hca(0).pci_ids = "1d0f:efa2";
  const Observation seen = worst_of(rdma_devices(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kFailure);
  EXPECT_THAT(seen.evidence, HasSubstr("has no reliable connections. This plugin does"));
  EXPECT_THAT(seen.fix, HasSubstr("aws-ofi-nccl"));
}

// As in Amazon's images.
TEST(RdmaDevices, ElasticFabricAdapterWithItsPlugin_IsOk) {
  MadeFabric made;
  made.add_roce().link_layer = "Unspecified";
  made.hca(0).node_type = "7: unspecified";
  made.host.libraries.default_plugin.emplace_back().file = "libnccl-net.so";
  EXPECT_EQ(worst_of(rdma_devices(), made.host).verdict, Verdict::kOk);
  made.host.environment["NCCL_NET_PLUGIN"] = "gdr";
  EXPECT_EQ(worst_of(rdma_devices(), made.host).verdict, Verdict::kFailure);
  made.host.environment["NCCL_NET_PLUGIN"] = "ofi";
  EXPECT_EQ(worst_of(rdma_devices(), made.host).verdict, Verdict::kOk);
}

TEST(RdmaDevices, IwarpDeviceBesideAnHca_IsOk) {
  MadeFabric made;
  made.add_infiniband();
  made.add_roce();
  made.hca(1).node_type = "4: RNIC";
  EXPECT_EQ(worst_of(rdma_devices(), made.host).verdict, Verdict::kOk);
}

TEST(RdmaDevices, IwarpDeviceAlone_IsAFailureUnlessItIsNamed) {
  MadeFabric made;
  made.add_roce();
  made.hca(0).node_type = "4: RNIC";
  EXPECT_EQ(worst_of(rdma_devices(), made.host).verdict, Verdict::kFailure);
  made.host.environment["NCCL_IB_HCA"] = made.hca(0).name;
  EXPECT_EQ(worst_of(rdma_devices(), made.host).verdict, Verdict::kOk);
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
  made.write("/sys/module/mlx5_core/refcnt", "0\n");
  const Observation seen = worst_of(rdma_devices(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kFailure);
  ASSERT_EQ(seen.steps.size(), 1u);
  EXPECT_EQ(seen.steps[0].command, "modprobe mlx5_ib");
}

// The undo of a step, modprobe -r, would take RDMA from all HCAs.
TEST(RdmaDevices, ModuleThatIsLoaded_IsNotLoadedByAStep) {
  MadeFabric made;
  made.add_infiniband();
  made.hca(0).pci = "0000:3b:00.0";
  add_function(&made, "0000:3c:00.0", "mlx5_core");
  EXPECT_TRUE(worst_of(rdma_devices(), made.host).steps.empty());  // no /sys/module
  made.write("/sys/module/mlx5_core/refcnt", "1\n");
  EXPECT_EQ(worst_of(rdma_devices(), made.host).steps.size(), 1u);
  made.write("/sys/module/mlx5_ib/refcnt", "0\n");
  const Observation seen = worst_of(rdma_devices(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kWarning);
  EXPECT_TRUE(seen.steps.empty());
  EXPECT_THAT(seen.evidence, HasSubstr("mlx5_ib is loaded, and RDMA is disabled"));
  EXPECT_THAT(seen.fix, ::testing::StartsWith("devlink dev param set pci/0000:3c:00.0"));
}

TEST(RdmaDevices, FunctionInAContainer_IsUnknownWithoutAStep) {
  MadeFabric made;
  made.add_rails();
  add_function(&made, "0000:3b:00.0", "mlx5_core");
  made.write("/sys/module/mlx5_core/refcnt", "0\n");
  made.host.process.container = Container::kDocker;
  const Observation seen = worst_of(rdma_devices(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kUnknown);
  EXPECT_EQ(seen.needs, "run it on the machine itself");
  EXPECT_TRUE(seen.steps.empty());
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
  made.hca(0).open_errno = EACCES;
  EXPECT_THAT(worst_of(rdma_devices(), made.host).evidence, HasSubstr("Permission denied"));
  EXPECT_THAT(worst_of(rdma_devices(), made.host).fix, HasSubstr("permissions"));
}

TEST(RdmaDevices, DeadHca_IsAFailureOfItsHardware) {
  MadeFabric made;
  made.add_infiniband();
  made.hca(0).open_error = "Input/output error";
  made.hca(0).open_errno = EIO;
  EXPECT_EQ(worst_of(rdma_devices(), made.host).fix,
            "look in dmesg for the HCA's driver; reset or replace the HCA");
}

// A machine with two HCAs, of which the first cannot be used.
class TwoHcas : public MadeFabric {
 public:
  TwoHcas() {
    add_infiniband();
    add_infiniband();
    hca(0).in_verbs = false;
    write("/sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0\n");
    write("/sys/class/infiniband_verbs/uverbs1/ibdev", "mlx5_1\n");
    host.process.uverbs = {{"uverbs1", 0}};
  }
};

TEST(RdmaDevices, WithheldFromAContainerOrJob_AreOk) {
  TwoHcas made;
  EXPECT_EQ(verdict_of(rdma_devices(), made.host), Verdict::kFailure);
  made.host.process.container = Container::kKubernetes;
  EXPECT_EQ(verdict_of(rdma_devices(), made.host), Verdict::kOk);
  made.host.process.container = Container::kNone;
  made.host.process.uverbs = {{"uverbs0", EPERM}, {"uverbs1", 0}};
  EXPECT_EQ(verdict_of(rdma_devices(), made.host), Verdict::kOk);
  made.hca(0).in_verbs = true;
  made.hca(0).open_error = "Operation not permitted";
  made.hca(0).open_errno = EPERM;
  EXPECT_EQ(verdict_of(rdma_devices(), made.host), Verdict::kOk);
}

TEST(RdmaDevices, ExcludedByTheFilter_AreNotJudged) {
  TwoHcas made;
  made.host.environment["NCCL_IB_HCA"] = "=mlx5_1";
  EXPECT_EQ(verdict_of(rdma_devices(), made.host), Verdict::kOk);
  EXPECT_EQ(rdma_devices().run(made.host)[0].evidence, "NCCL_IB_HCA excludes it");
}

}  // namespace
}  // namespace gdr::tools::doctor
