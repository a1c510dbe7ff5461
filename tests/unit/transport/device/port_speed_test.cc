#include "transport/device/port_speed.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/fakes/temp_folder.h"
#include "tests/fakes/verbs/fake_verbs.h"
#include "transport/device/hca.h"

namespace gdr::transport {
namespace {

TEST(LinkSpeed, KnownCodes_AreMegabitsOfAllLanes) {
  EXPECT_EQ(link_speed_mbps(32, 2), 100000);   // EDR x4
  EXPECT_EQ(link_speed_mbps(64, 2), 200000);   // HDR x4
  EXPECT_EQ(link_speed_mbps(128, 2), 400000);  // NDR x4
  EXPECT_EQ(link_speed_mbps(128, 4), 800000);  // NDR x8
  EXPECT_EQ(link_speed_mbps(32, 1), 25000);
  EXPECT_EQ(link_speed_mbps(64, 16), 100000);  // HDR x2
}

TEST(LinkSpeed, UnknownCode_IsZero) {
  EXPECT_EQ(link_speed_mbps(3, 2), 0);
  EXPECT_EQ(link_speed_mbps(32, 0), 0);
  EXPECT_EQ(link_speed_mbps(1u << 31, 2), 0);
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

TEST_F(PortSpeed, Library_ReportsTheEffectiveSpeed_IsUsedFirst) {
  port().effective_speed = 16000;  // two bonded ports of 800 Gb/s
  EXPECT_EQ(speed(), 1600000);
  options.query_port_speed = false;
  EXPECT_EQ(speed(), 200000) << "NCCL_IB_QUERY_PORT_SPEED=0";
}

TEST_F(PortSpeed, EffectiveSpeed_FailsOrAbsentOrAbsurd_IsTheLinks) {
  EXPECT_EQ(speed(), 200000) << "the call fails";
  port().effective_speed = UINT64_MAX;
  EXPECT_EQ(speed(), 200000) << "no int holds it";
  port().effective_speed = 16000;
  verbs.mutable_api().query_port_speed = nullptr;
  EXPECT_EQ(speed(), 200000) << "an older library";
}

// The narrow code of a link of XDR is that of NDR.
TEST_F(PortSpeed, NdrInTheNarrowCode_IsRaisedBySysfs) {
  port().active_speed = 128;
  EXPECT_EQ(speed(), 400000) << "no sysfs";
  write_rate("800 Gb/sec (4X XDR)");
  EXPECT_EQ(speed(), 800000);
  write_rate("400 Gb/sec (4X NDR)");
  EXPECT_EQ(speed(), 400000);
}

TEST_F(PortSpeed, UnknownCode_IsSysfsRate) {
  port().active_speed = 3;
  write_rate("1600 Gb/sec (4X)");
  EXPECT_EQ(speed(), 1600000);
  EXPECT_TRUE(discover().findings.empty());
}

TEST_F(PortSpeed, NoAnswer_IsUnknownWithAWarning) {
  port().active_speed = 0;
  Discovery found = discover();
  EXPECT_EQ(found.devices.at(0).speed_mbps, 0);
  ASSERT_EQ(found.findings.size(), 1u);
  EXPECT_EQ(found.findings[0].severity, Severity::kWarning);
  EXPECT_EQ(found.findings[0].subject, "mlx5_0:1");
  EXPECT_NE(found.findings[0].text.find("given 10 Gb/s"), std::string::npos);
}

TEST_F(PortSpeed, PortDown_UnknownSpeedIsNoFinding) {
  port().active = false;
  port().active_speed = 0;
  EXPECT_TRUE(discover().findings.empty());
}

}  // namespace
}  // namespace gdr::transport
