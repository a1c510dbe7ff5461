#include "plugin/discovery/discovery.h"

#include <gmock/gmock.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "tests/fakes/temp_folder.h"
#include "tests/fakes/verbs/fake_verbs.h"

namespace gdr::discovery {
namespace {

using fake_verbs::Call;
using fake_verbs::HcaConfig;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

struct DiscoveryTest : testing::Test {
  fake_verbs::FakeVerbs verbs;

  Discovery discover(const char* filter = "") {
    return discover_devices(verbs.api(), {.hcas = HcaFilter::parse(filter).value()}).value();
  }
  static std::vector<std::string> names(const std::vector<Device>& devices) {
    std::vector<std::string> all;
    for (const Device& device : devices) {
      all.push_back(device.hca->name() + ":" + std::to_string(device.port));
    }
    return all;
  }
};
using Names = std::vector<std::string>;

TEST_F(DiscoveryTest, ListsActivePortsInTheLibrarysOrder) {
  auto two_ports = HcaConfig::infiniband("mlx5_1", 2);
  two_ports.ports.push_back(two_ports.ports[0]);
  verbs.add_hca(two_ports);
  verbs.add_hca(HcaConfig::roce("mlx5_0", 1));
  Discovery found = discover();
  EXPECT_EQ(names(found.devices), (Names{"mlx5_1:1", "mlx5_1:2", "mlx5_0:1"}));
  EXPECT_TRUE(found.skipped.empty());
  EXPECT_FALSE(found.devices[0].state.ethernet);
  EXPECT_EQ(found.devices[0].state.lid, 2);
  EXPECT_TRUE(found.devices[2].state.ethernet);
  EXPECT_EQ(found.devices[2].speed_mbps, 200000);
  EXPECT_EQ(found.devices[0].hca, found.devices[1].hca) << "ports share the context";
}

TEST_F(DiscoveryTest, PortDown_IsInactiveWithItsReason) {
  verbs.add_hca(HcaConfig::infiniband("mlx5_0", 1));
  verbs.port("mlx5_0", 1).active = false;
  Discovery found = discover();
  EXPECT_TRUE(found.devices.empty());
  EXPECT_EQ(names(found.inactive), Names{"mlx5_0:1"});
  ASSERT_EQ(found.skipped.size(), 1u);
  EXPECT_EQ(found.skipped[0], (SkippedPort{FindingKind::kPortDown, "mlx5_0:1", "is not ACTIVE"}));
  EXPECT_EQ(to_string(found.skipped[0]), "mlx5_0:1 is not ACTIVE");
}

TEST_F(DiscoveryTest, FilteredOut_NamesTheVariable) {
  verbs.add_hca(HcaConfig::infiniband("mlx5_0", 1));
  verbs.add_hca(HcaConfig::infiniband("mlx5_1", 2));
  Discovery found = discover("=mlx5_1");
  EXPECT_EQ(names(found.devices), Names{"mlx5_1:1"});
  ASSERT_EQ(found.skipped.size(), 1u);
  EXPECT_EQ(found.skipped[0],
            (SkippedPort{FindingKind::kHcaExcluded, "mlx5_0:1", "is excluded by NCCL_IB_HCA"}));
}

TEST_F(DiscoveryTest, HcaOrPortFails_TheOthersAreListed) {
  verbs.add_hca(HcaConfig::infiniband("mlx5_0", 1));
  verbs.add_hca(HcaConfig::infiniband("mlx5_1", 2));
  for (Call call : {Call::kOpenDevice, Call::kQueryPort}) {
    verbs.fail_call(call, ENODEV);
    Discovery found = discover();
    EXPECT_EQ(names(found.devices), Names{"mlx5_1:1"});
    ASSERT_EQ(found.skipped.size(), 1u);
    EXPECT_EQ(found.skipped[0].kind, FindingKind::kHcaFailed);
    EXPECT_NE(to_string(found.skipped[0]).find("mlx5_0"), std::string::npos);
  }
}

TEST_F(DiscoveryTest, DeviceFileIsMissingOrForbidden_TheFixIsForContainers) {
  verbs.add_hca(HcaConfig::infiniband("mlx5_0", 1));
  verbs.add_hca(HcaConfig::infiniband("mlx5_1", 2));
  for (int err : {EACCES, EPERM, ENOENT, ENODEV}) {
    verbs.fail_call(Call::kOpenDevice, err, 1);
    const std::string text = no_device_text(discover("=mlx5_1").skipped);
    EXPECT_THAT(text, testing::HasSubstr("; opening mlx5_1 failed: "));
    EXPECT_EQ(text.ends_with("unless NCCL_NET=GDR"), err == ENODEV) << text;
    EXPECT_EQ(text.find("GDR. Fix: pass /dev/infiniband") == text.npos, err == ENODEV) << text;
  }
  EXPECT_THAT(no_device_text({}), testing::HasSubstr("lists none. NCCL continues"));
  EXPECT_THAT(no_device_text({}), testing::HasSubstr("Fix: load the HCA's driver"));
}

TEST_F(DiscoveryTest, KernelWithoutRdma_IsAnErrorThatSaysSoAndHowToFixIt) {
  verbs.fail_call(Call::kGetDeviceList, ENOSYS);
  auto found = discover_devices(verbs.api(), {});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().sys_errno, ENOSYS);
  EXPECT_TRUE(found.error().text.starts_with("no RDMA device: the kernel has no RDMA support"));
  EXPECT_NE(found.error().text.find(". Fix: load the HCA's driver"), std::string::npos);
}

TEST_F(DiscoveryTest, EntryOfTheFilterWithoutAPort_IsAFindingThatNamesThePorts) {
  auto two_ports = HcaConfig::infiniband("mlx5_0", 1);
  two_ports.ports.push_back(two_ports.ports.front());
  verbs.add_hca(two_ports);
  verbs.add_hca(HcaConfig::infiniband("mlx5_10", 3));
  auto findings = [&](const char* list) {
    DiscoveryOptions options;
    options.hcas = HcaFilter::parse(list).value();
    std::string text;
    const Discovery found = discover_devices(verbs.api(), options).value();
    for (const Finding& finding : found.findings) {
      text += (finding.severity == Severity::kWarning ? "WARN " : "INFO ") + to_string(finding);
    }
    return text;
  };
  EXPECT_EQ(findings("mlx5_9,mlx5_0:2"),
            "WARN NCCL_IB_HCA: 'mlx5_9' matches no port of this machine, whose HCAs are mlx5_0, "
            "mlx5_10. Fix: correct a name that is misspelt; nothing to do where the list is for "
            "several kinds of machine");
  EXPECT_EQ(findings("mlx5_9,mlx5_0:3"),
            "WARN NCCL_IB_HCA: 'mlx5_9', 'mlx5_0:3' match no port of this machine, whose HCAs are "
            "mlx5_0, mlx5_10. Fix: name HCAs of this machine");
  EXPECT_THAT(findings("^mlx5_9"),
              AllOf(testing::StartsWith("WARN "), testing::HasSubstr("Fix: correct a name")));
  verbs.fail_call(Call::kOpenDevice, EIO);
  EXPECT_EQ(findings("mlx5_0:3"), "") << "the ports of an HCA that cannot be opened are unknown";
}

TEST_F(DiscoveryTest, NoDevices_IsEmpty) { EXPECT_TRUE(discover().devices.empty()); }

// One HCA, whose sysfs folder and port a test can change.
struct PortSpeed : testing::Test {
  fake_verbs::FakeVerbs verbs;
  const TempFolder folder;
  const std::filesystem::path sysfs = folder.path();
  DiscoveryOptions options;

  PortSpeed() {
    auto config = HcaConfig::infiniband("mlx5_0", 1);
    config.sysfs_path = sysfs.string();
    verbs.add_hca(config);
  }

  fake_verbs::Port& port() { return verbs.port("mlx5_0", 1); }
  void write_rate(const std::string& text) {
    std::filesystem::create_directories(sysfs / "ports/1");
    std::ofstream(sysfs / "ports/1/rate") << text << "\n";
  }
  Discovery discover() { return discover_devices(verbs.api(), options).value(); }
  int speed() { return discover().devices.at(0).speed_mbps; }
};

TEST_F(PortSpeed, LibraryReportsTheEffectiveSpeed_IsUsed) {
  write_rate("200 Gb/sec (4X HDR)");
  port().effective_speed = 16000;  // two bonded ports of 800 Gb/s
  EXPECT_EQ(speed(), 1600000);
  options.query_port_speed = false;
  EXPECT_EQ(speed(), 200000) << "NCCL_IB_QUERY_PORT_SPEED=0";
}

TEST_F(PortSpeed, EffectiveSpeedFailsOrAbsentOrAbsurd_IsThatOfSysfs) {
  write_rate("800 Gb/sec (4X XDR)");
  port().effective_speed = 0;
  EXPECT_EQ(speed(), 800000) << "the call fails";
  port().effective_speed = UINT64_MAX;
  EXPECT_EQ(speed(), 800000) << "no int holds it";
  port().effective_speed = 16000;
  verbs.mutable_api().query_port_speed = nullptr;
  EXPECT_EQ(speed(), 800000) << "an older library";
  EXPECT_TRUE(discover().findings.empty());
}

TEST_F(PortSpeed, NoAnswer_IsUnknownWithAWarningWhereThePortIsActive) {
  port().effective_speed = 0;
  Discovery found = discover();
  EXPECT_EQ(found.devices.at(0).speed_mbps, 0);
  ASSERT_EQ(found.findings.size(), 1u);
  EXPECT_EQ(found.findings[0].severity, Severity::kWarning);
  EXPECT_EQ(found.findings[0].subject, "mlx5_0:1");
  EXPECT_NE(found.findings[0].text.find("given 10 Gb/s"), std::string::npos);
  port().active = false;
  EXPECT_TRUE(discover().findings.empty());
}

struct PortExclusion : testing::Test {
  fake_verbs::FakeVerbs verbs;

  // Discovers one HCA of that kind. It must be excluded, whether its port is active or not.
  std::string reason(ibv_transport_type transport, int link_layer) {
    auto config = HcaConfig::roce("rdmap16s27", 1);
    config.transport = transport;
    config.ports[0].other_link_layer = link_layer;
    verbs.add_hca(config);
    std::string reason;
    for (bool active : {true, false}) {
      verbs.port("rdmap16s27", 1).active = active;
      Discovery found = discover_devices(verbs.api(), {}).value();
      EXPECT_THAT(found.devices, IsEmpty());
      EXPECT_THAT(found.inactive, IsEmpty());
      if (found.skipped.size() != 1) return "not skipped";
      if (found.skipped[0].kind != FindingKind::kHcaUnsupported) return "of another kind";
      reason = to_string(found.skipped[0]);
    }
    return reason;
  }
  void add_erdma() {
    auto config = HcaConfig::roce("erdma_0", 1);
    config.transport = IBV_TRANSPORT_IWARP;
    verbs.add_hca(config);
  }
  // hcas: as in NCCL_IB_HCA.
  Discovery discover_with(const char* hcas) {
    return discover_devices(verbs.api(), {.hcas = HcaFilter::parse(hcas).value()}).value();
  }
};

TEST_F(PortExclusion, Efa_IsExcludedByItsNameAndItsPluginIsNamed) {
  EXPECT_THAT(
      reason(IBV_TRANSPORT_UNSPECIFIED, IBV_LINK_LAYER_UNSPECIFIED),
      AllOf(StartsWith("rdmap16s27:1 is neither"), HasSubstr("Elastic Fabric Adapter (EFA)"),
            HasSubstr("Fix: use the network plugin"), HasSubstr("aws-ofi-nccl")));
}

TEST_F(PortExclusion, Iwarp_IsExcludedAlthoughItsLinkIsEthernet) {
  EXPECT_THAT(reason(IBV_TRANSPORT_IWARP, IBV_LINK_LAYER_ETHERNET),
              AllOf(StartsWith("rdmap16s27:1 is an iWARP device"), HasSubstr("Fix: "),
                    HasSubstr("name the device in NCCL_IB_HCA")));
}

// As eRDMA in its compatible mode, whose queue pairs connect without the connection manager.
TEST_F(PortExclusion, NamedIwarp_IsUsed) {
  add_erdma();
  for (const char* hcas : {"erdma", "=erdma_0", "erdma_0:1"}) {
    Discovery found = discover_with(hcas);
    ASSERT_EQ(found.devices.size(), 1u) << hcas;
    EXPECT_TRUE(found.devices[0].state.ethernet);
    EXPECT_THAT(found.skipped, IsEmpty());
  }
}

TEST_F(PortExclusion, IwarpThatAListOfExclusionsLeaves_IsExcluded) {
  add_erdma();
  for (const char* hcas : {"^mlx5", "^=mlx5_0", "^erdma_0:2", ""}) {
    Discovery found = discover_with(hcas);
    EXPECT_THAT(found.devices, IsEmpty()) << hcas;
    for (const Finding& finding : found.findings) EXPECT_EQ(finding.subject, "NCCL_IB_HCA");
    ASSERT_EQ(found.skipped.size(), 1u);
    EXPECT_THAT(to_string(found.skipped[0]), StartsWith("erdma_0:1 is an iWARP device"));
  }
}

TEST_F(PortExclusion, OtherKindsThatAreNamed_AreExcluded) {
  const std::pair<ibv_transport_type, uint8_t> kinds[] = {
      {IBV_TRANSPORT_UNSPECIFIED, IBV_LINK_LAYER_UNSPECIFIED},  // EFA
      {IBV_TRANSPORT_UNSPECIFIED, IBV_LINK_LAYER_ETHERNET},
      {IBV_TRANSPORT_UNKNOWN, IBV_LINK_LAYER_ETHERNET},
      {IBV_TRANSPORT_USNIC_UDP, IBV_LINK_LAYER_ETHERNET},
      {IBV_TRANSPORT_IWARP, IBV_LINK_LAYER_UNSPECIFIED},
      {IBV_TRANSPORT_IWARP, IBV_LINK_LAYER_INFINIBAND},
  };
  for (const auto& [transport, link_layer] : kinds) {
    EXPECT_NE(exclusion_reason(transport, link_layer, true), "") << transport;
  }
}

TEST_F(PortExclusion, LinkLayerNeitherInfiniBandNorEthernet_IsExcluded) {
  EXPECT_EQ(reason(IBV_TRANSPORT_IB, IBV_LINK_LAYER_UNSPECIFIED),
            "rdmap16s27:1 has a link layer that is neither InfiniBand nor Ethernet");
}

TEST_F(PortExclusion, FilteredEfa_IsReportedAsFiltered) {
  auto config = HcaConfig::roce("rdmap16s27", 1);
  config.transport = IBV_TRANSPORT_UNSPECIFIED;
  verbs.add_hca(config);
  DiscoveryOptions options{.hcas = HcaFilter::parse("mlx5").value()};
  EXPECT_EQ(discover_devices(verbs.api(), options).value().skipped.at(0).kind,
            FindingKind::kHcaExcluded);
}

}  // namespace
}  // namespace gdr::discovery
