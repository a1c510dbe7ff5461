#include "transport/device/port.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/fakes/temp_folder.h"
#include "tests/fakes/verbs/fake_verbs.h"
#include "transport/device/hca.h"

namespace gdr::transport {
namespace {

using namespace std::chrono_literals;

TEST(PortState, Query_HasGrhRequirementAndMessageLimit) {
  fake_verbs::FakeVerbs verbs;
  auto config = fake_verbs::HcaConfig::infiniband("fake_0", 7);
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
      HcaContext::open(verbs.api(), verbs.add_hca(fake_verbs::HcaConfig::infiniband("fake_a", 1)))
          .value();
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
    auto config = fake_verbs::HcaConfig::infiniband("mlx5_0", 1);
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

}  // namespace
}  // namespace gdr::transport
