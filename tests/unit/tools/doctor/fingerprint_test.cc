#include "tools/doctor/fingerprint.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/unit/tools/doctor/made_elf.h"
#include "tests/unit/tools/doctor/made_host.h"
#include "tests/unit/tools/doctor/made_pci.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::Contains;
using ::testing::Pair;
using Json = nlohmann::ordered_json;

void make_node(MadeHost* made) {
  made->write("/proc/sys/kernel/hostname", "node17\n");
  made->write("/proc/sys/kernel/osrelease", "6.8.0-60-generic\n");
  made->write("/proc/cmdline", "root=/dev/sda1 iommu=pt quiet intel_iommu=on\n");
  made->write("/proc/driver/nvidia/version",
              "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.133.20  Release\n");
  made->write("/etc/os-release", "NAME=\"Ubuntu\"\nPRETTY_NAME=\"Ubuntu 24.04.2 LTS\"\n");
  made->write("/sys/module/nvidia/version", "570.133.20\n");
  made->write("/sys/module/mlx5_core/refcnt", "1\n");
  made->write("/sys/class/infiniband/mlx5_0/fw_ver", "28.41.1000\n");
  made->write("/sys/class/infiniband/mlx5_0/board_id", "MT_0000000838\n");
  made->write("/sys/class/infiniband/mlx5_0/device/net/eth0/mtu", "9000\n");
  made->host.environment = {{"NCCL_IB_TC", "106"}};
}

TEST(Fingerprint, Node_HasWhatItsFilesShow) {
  MadeHost made;
  make_node(&made);
  const Properties software = software_of(made.host);
  EXPECT_THAT(software, Contains(Pair("kernel", "6.8.0-60-generic")));
  EXPECT_THAT(software, Contains(Pair("kernel options", "intel_iommu=on iommu=pt")));
  EXPECT_THAT(software, Contains(Pair("operating system", "Ubuntu 24.04.2 LTS")));
  EXPECT_THAT(software, Contains(Pair("NVIDIA driver", "570.133.20")));
  EXPECT_THAT(software, Contains(Pair("NVIDIA kernel modules", "open")));
  EXPECT_THAT(software, Contains(Pair("nvidia_peermem", "none")));
  EXPECT_THAT(software, Contains(Pair("mlx5_core driver", "that of the kernel")));
  const Json json = Json::parse(to_fingerprint(made.host));
  EXPECT_EQ(json["host"], "node17");
  EXPECT_EQ(json["settings"]["NCCL_IB_TC"], "106");
  EXPECT_EQ(json["hcas"][0]["name"], "mlx5_0");
  EXPECT_EQ(json["hcas"][0]["firmware"], "28.41.1000");
  EXPECT_EQ(json["hcas"][0]["netdev_mtu"], "9000");
  EXPECT_TRUE(json["topology"].is_null());
}

TEST(Fingerprint, LinksOfDevices_AreWhatTheyRunAt) {
  MadePci made;
  made.write("/sys/class/infiniband/mlx5_0/fw_ver", "28.41.1000\n");
  made.host.pci_states[topology::bdf_of(0x1a)].current = {2.5, 8};
  made.host.pci_states[topology::bdf_of(0x1b)].current = {16, 8};
  const Json json = Json::parse(to_fingerprint(made.host));
  EXPECT_EQ(json["gpus"][0]["name"], "GPU0");
  EXPECT_EQ(json["gpus"][0]["pcie_width"], "x8");
  EXPECT_EQ(json["hcas"][0]["pcie_link"], "16 GT/s x8");
  made.host.pci_states.clear();
  const Json unknown = Json::parse(to_fingerprint(made.host));
  EXPECT_TRUE(unknown["gpus"][0]["pcie_width"].is_null());
  EXPECT_TRUE(unknown["hcas"][0]["pcie_link"].is_null());
}

TEST(Fingerprint, Plugin_HasItsRelease) {
  MadeHost made;
  made.write("/a.so", made_elf(std::string("\0f\0", 3), "x version 1.2.3 (wire version %d"));
  made.write("/b.so", made_library());
  EXPECT_EQ(plugin_release(made.host.path("/a.so").string()), "1.2.3");
  EXPECT_EQ(plugin_release(made.host.path("/b.so").string()), "found");
}

TEST(Fingerprint, EmptyRoot_IsUnknownAndNotNone) {
  MadeHost made;
  const Properties software = software_of(made.host);
  for (const char* name : {"kernel", "NVIDIA driver", "NVIDIA kernel modules", "BIOS"}) {
    EXPECT_THAT(software, Contains(Pair(name, std::nullopt))) << name;
  }
  EXPECT_TRUE(Json::parse(to_fingerprint(made.host))["hcas"].empty());
}

TEST(Fingerprint, SameMachine_IsTheSameText) {
  MadeHost made;
  make_node(&made);
  EXPECT_EQ(to_fingerprint(made.host), to_fingerprint(made.host));
}

TEST(Fingerprint, ThisMachine_HasLibraries) {
  const Properties libraries = loaded_libraries();
  EXPECT_EQ(libraries.count("rdma-core"), 1u);
  EXPECT_EQ(libraries.count("NCCL"), 1u);
  EXPECT_EQ(libraries, loaded_libraries());
}

TEST(Fingerprint, Releases_AreReadFromNamesAndNumbers) {
  EXPECT_EQ(rdma_core_release("libibverbs.so.1.14.44.0"), "44.0");
  EXPECT_EQ(rdma_core_release("libibverbs.so.1"), "libibverbs.so.1");
  EXPECT_EQ(rdma_core_release("libibverbs.so.1.14"), "libibverbs.so.1.14");
  EXPECT_EQ(nccl_release(22703), "2.27.3");
  EXPECT_EQ(nccl_release(21805), "2.18.5");
  EXPECT_EQ(nccl_release(2708), "2.7.8");
}

}  // namespace
}  // namespace gdr::tools::doctor
