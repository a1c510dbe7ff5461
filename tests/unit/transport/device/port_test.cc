#include "transport/device/port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>

#include "tests/fakes/temp_folder.h"
#include "tests/fakes/verbs/fake_verbs.h"
#include "transport/device/hca.h"

namespace gdr::transport {
namespace {

using namespace std::chrono_literals;
using fake_verbs::HcaConfig;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST(PortState, Query_HasGrhRequirementAndMessageLimit) {
  fake_verbs::FakeVerbs verbs;
  auto config = HcaConfig::infiniband("fake_0", 7);
  auto hca = HcaContext::open(verbs.api(), verbs.add_hca(config)).value();
  fake_verbs::Port& port = verbs.port("fake_0", 1);
  auto query = [&] { return query_port_state(hca->api(), hca->context(), 1).value(); };
  EXPECT_FALSE(query().grh_required);
  EXPECT_EQ(query().max_message_bytes, 1u << 30);
  port.flags = IBV_QPF_GRH_REQUIRED;
  port.max_msg_sz = 1u << 23;
  EXPECT_TRUE(query().grh_required);
  EXPECT_EQ(query().max_message_bytes, 1u << 23);
  port.max_msg_sz = 0;
  EXPECT_EQ(query().max_message_bytes, kDefaultMessageBytes);
}

struct PortStatesTest : testing::Test {
  bool is_active() { return states.is_active(1, now); }
  void set_active(bool active) { verbs.port("fake_a", 1).active = active; }

  fake_verbs::FakeVerbs verbs;
  std::shared_ptr<HcaContext> hca =
      HcaContext::open(verbs.api(), verbs.add_hca(HcaConfig::infiniband("fake_a", 1))).value();
  PortStates states{hca->api(), hca->context()};
  PortStates::Time now{};
};

TEST_F(PortStatesTest, AskedAgainSoon_ThePortIsNotQueried) {
  EXPECT_TRUE(is_active());
  set_active(false);
  now += 999ms;
  EXPECT_TRUE(is_active());
  now += 1ms;
  EXPECT_FALSE(is_active());
}

TEST_F(PortStatesTest, AnEventCame_ThePortIsQueried) {
  EXPECT_TRUE(is_active());
  set_active(false);
  states.drop();
  EXPECT_FALSE(is_active());
  set_active(true);
  EXPECT_FALSE(is_active());
}

TEST_F(PortStatesTest, AnEventCameDuringTheQuery_ThePortIsQueriedAgain) {
  static decltype(verbs::Api::query_port) query;
  static std::function<void()> meanwhile;
  verbs::Api api = hca->api();
  query = std::exchange(api.query_port, [](ibv_context* context, uint8_t port, auto* attr) {
    const int err = query(context, port, attr);
    std::exchange(meanwhile, [] {})();
    return err;
  });
  PortStates asked(api, hca->context());
  meanwhile = [&] {
    set_active(false);
    asked.drop();
  };
  EXPECT_TRUE(asked.is_active(1, now));
  EXPECT_FALSE(asked.is_active(1, now));
}

TEST_F(PortStatesTest, QueryFails_ThePortIsNotActive) {
  verbs.fail_call(fake_verbs::Call::kQueryPort, EIO);
  EXPECT_FALSE(is_active());
}

TEST(RateFile, Texts_AreMegabits) {
  EXPECT_EQ(rate_mbps("800 Gb/sec (4X XDR)"), 800000);
  EXPECT_EQ(rate_mbps("2.5 Gb/sec (1X SDR)"), 2500);
  for (const char* text :
       {"", "0 Gb/sec", "-5 Gb/sec", "10", "10 Mb/sec", "fast", "1e300 Gb/sec"}) {
    EXPECT_EQ(rate_mbps(text), 0) << text;
  }
}

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
}  // namespace gdr::transport
