#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/unit/tools/doctor/facts/made_host.h"
#include "tests/unit/tools/doctor/facts/made_pci.h"
#include "tools/doctor/report/profile.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;
using ::testing::StartsWith;
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
  const Profile profile = profile_of(made.host);
  EXPECT_EQ(profile.host, "node17");
  EXPECT_EQ(profile.machine, (Facts{{"kernel", "6.8.0-60-generic"},
                                    {"kernel options", "intel_iommu=on iommu=pt"},
                                    {"operating system", "Ubuntu 24.04.2 LTS"},
                                    {"NVIDIA driver", "570.133.20"},
                                    {"NVIDIA kernel modules", "open"},
                                    {"nvidia_peermem", "none"},
                                    {"mlx5_core driver", "that of the kernel"},
                                    {"nccl-gdr", profile.machine.at("nccl-gdr")}}));
  EXPECT_THAT(profile.settings, ElementsAre(Pair("NCCL_IB_TC", "106")));
  const Device& hca = profile.devices.at(kHcaKind).at(0);
  EXPECT_EQ(hca.name, "mlx5_0");
  EXPECT_EQ(hca.properties, (Facts{{"firmware", "28.41.1000"},
                                   {"board", "MT_0000000838"},
                                   {"MTU of the interface", "9000"}}));
}

TEST(Fingerprint, Libraries_AreThoseOfTheLoader) {
  MadeHost made;
  made.host.is_live = made.host.libraries.is_known = true;
  made.host.gpus.cuda.emplace().version = 12080;
  made.host.libraries.nccl = {{"/lib/libnccl.so.2", "test", "2.28.9"}};
  made.host.libraries.verbs = {{"/lib/libibverbs.so.1", "test", ""}};
  EXPECT_THAT(profile_of(made.host).machine,
              AllOf(Contains(Pair("CUDA driver API", "12.8")), Contains(Pair("NCCL", "2.28.9")),
                    Contains(Pair("plugin in the library path", "none")),
                    Contains(Pair("libibverbs", "found"))));
  made.host.gpus.cuda.reset();
  EXPECT_THAT(profile_of(made.host).machine, Contains(Pair("CUDA driver API", "none")));
}

TEST(Fingerprint, Devices_HaveWhatTheTopologyShowsAndWhatLinksRunAt) {
  MadePci made;
  made.write("/sys/class/infiniband/mlx5_9/fw_ver", "28.41.1000\n");
  made.host.pci_states[topology::bdf_of(0x1a)].current = {2.5, 8};
  made.host.pci_states[topology::bdf_of(0x1b)].current = {16, 8};
  made.write("/proc/driver/nvidia/gpus/0000:1a:00.0/information", "GPU UUID: \t GPU-1a\n");
  const Profile profile = profile_of(made.host);
  const Device& gpu = profile.devices.at(kGpuKind).at(0);
  EXPECT_EQ(gpu.guid, "GPU-1a");
  EXPECT_EQ(gpu.address, "0000:1a:00.0");
  EXPECT_THAT(gpu.properties, Contains(Pair("PCIe lanes in use", "x8")));
  EXPECT_THAT(gpu.paths, ElementsAre(Pair("mlx5_0", "PIX")));
  EXPECT_EQ(gpu.choices, (Facts{{"rails by number", "0"},
                                {"rails that NCCL uses, by number", "0"},
                                {"path to its rail", "PIX"},
                                {"GPUDirect receive", "yes"},
                                {"GPUDirect send", "yes"}}));
  const std::vector<Device>& hcas = profile.devices.at(kHcaKind);
  EXPECT_EQ(hcas.at(0).properties, (Facts{{"PCI device", "15b3:1021"},
                                          {"NUMA node", "0"},
                                          {"PCIe link", "32 GT/s x16"},
                                          {"PCIe link in use", "16 GT/s x8"},
                                          {"GPUDirect support", "yes"},
                                          {"ports", "1"},
                                          {"port 1 state", "active"},
                                          {"port 1 speed", "400 Gb/s"},
                                          {"port 1 link layer", "InfiniBand"}}));
  EXPECT_THAT(hcas.at(0).choices, ElementsAre(Pair("port 1 role", "rail 0")));
  EXPECT_EQ(hcas.at(1).name, "mlx5_9");
  EXPECT_EQ(profile.devices.at(kSwitchKind).at(0).name, "PCIe switch 0000:18:00.0");
  made.host.pci_states.clear();
  const Profile unknown = profile_of(made.host);
  EXPECT_THAT(unknown.devices.at(kGpuKind)[0].properties, Not(Contains(Key("PCIe lanes in use"))));
  EXPECT_THAT(unknown.devices.at(kHcaKind)[0].properties, Not(Contains(Key("PCIe link in use"))));
}

TEST(Fingerprint, EmptyRoot_IsUnknownAndNotNone) {
  MadeHost made;
  const Profile profile = profile_of(made.host);
  EXPECT_THAT(profile.machine, ElementsAre(Key("nccl-gdr")));
  EXPECT_EQ(lacking_in(profile), "GPU");
}

TEST(Fingerprint, Json_IsReadAgainWhole) {
  MadePci made;
  make_node(&made);
  const std::string text = to_json(profile_of(made.host));
  const Result<Profile> again = parse_fingerprint(text);
  ASSERT_TRUE(again) << again.error().text;
  EXPECT_EQ(to_json(*again), text);
  EXPECT_EQ(lacking_in(*again), "");
}

std::string error_of(const std::string& text) {
  const Result<Profile> profile = parse_fingerprint(text);
  return profile ? "" : profile.error().text;
}

TEST(ParseFingerprint, OtherTexts_AreErrorsThatSayWhat) {
  const std::string brackets(200000, '['), closing(200000, ']');
  const std::pair<std::string, const char*> cases[] = {
      {"", "damaged or cut off at byte 1. Fix: make one"},
      {"{", "damaged or cut off at byte 2. Fix: make one"},
      {"[]", "is not a fingerprint. Fix: "},
      {brackets + closing, "is not a fingerprint. Fix: "},
      {R"({"format": "nccl-gdr-doctor", "version": 1})", "is not a fingerprint. Fix: "},
      {R"({"format": "nccl-gdr-fingerprint"})", "lacks a key, or has another type of value"},
      {R"({"format": "nccl-gdr-fingerprint", "version": 2})", "is not of version 3"},
      {R"({"format": "nccl-gdr-fingerprint", "version": 3})", "lacks a key"}};
  for (const auto& [text, error] : cases) EXPECT_THAT(error_of(text), HasSubstr(error)) << error;
}

TEST(ParseFingerprint, PartsOfAnotherType_AreErrorsAndOtherKeysAreNot) {
  MadePci made;
  make_node(&made);
  const std::string whole = to_json(profile_of(made.host));
  for (const char* part : {"/devices", "/machine", "/settings", "/host", "/devices/GPU/0/name",
                           "/devices/HCA/0", "/machine/kernel"}) {
    Json odd = Json::parse(whole);
    odd[Json::json_pointer(part)] = 3;
    EXPECT_THAT(error_of(odd.dump()), HasSubstr("type of value. Fix: make one")) << part;
  }
  const std::string brackets(200000, '['), closing(200000, ']');
  EXPECT_EQ(error_of("{\"new\": " + brackets + closing + "," + whole.substr(1)), "");
}

}  // namespace
}  // namespace gdr::tools::doctor
