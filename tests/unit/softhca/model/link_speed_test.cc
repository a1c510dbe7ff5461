#include "softhca/model/link_speed.h"

#include <gtest/gtest.h>

#include "softhca/model/config.h"

namespace softhca {
namespace {

PortConfig port_of(const std::string& fields) {
  gdr::Result<Config> config = Config::load((R"({"devices": [{)" + fields + "}]}").c_str());
  EXPECT_TRUE(config) << config.error().text;
  return config ? config->devices[0].port(1) : PortConfig();
}

void expect_link(const std::string& fields, uint8_t width, uint16_t speed, double gbps) {
  PortConfig port = port_of(fields);
  EXPECT_EQ(port.link().width, width) << fields;
  EXPECT_EQ(port.link().speed, speed) << fields;
  EXPECT_EQ(port.gbps(), gbps) << fields;
}

TEST(LinkSpeed, SpeedAlone_GivesWidthAndCode) {
  expect_link("", 2, 128, 400);
  expect_link(R"("speed_gbps": 100)", 2, 32, 100);
  expect_link(R"("speed_gbps": 25)", 1, 32, 25);
  expect_link(R"("speed_gbps": 800)", 4, 128, 800);
}

TEST(LinkSpeed, NamedSpeedAndWidth_GiveTheRate) {
  expect_link(R"("link_speed": "XDR")", 2, 256, 800);
  expect_link(R"("link_speed": "XDR", "link_width": "2x")", 16, 256, 400);
  expect_link(R"("link_speed": "HDR", "link_width": "2x")", 16, 64, 100);
  expect_link(R"("link_speed": "NDR", "link_width": "12x")", 8, 128, 1200);
  expect_link(R"("link_width": "2x", "speed_gbps": 200)", 16, 128, 200);
}

TEST(LinkSpeed, UnknownCodes_AreReportedWithTheConfiguredRate) {
  expect_link(R"("link_speed": 512, "speed_gbps": 1600)", 2, 512, 1600);
  expect_link(R"("link_speed": 0)", 2, 0, 400);
  expect_link(R"("link_width": 64, "link_speed": "NDR", "speed_gbps": 200)", 64, 128, 200);
}

TEST(RateText, LooksAsInSysfs) {
  EXPECT_EQ(rate_text(400, {2, 128}), "400 Gb/sec (4X NDR)");
  EXPECT_EQ(rate_text(2.5, {1, 1}), "2.5 Gb/sec (1X SDR)");
  EXPECT_EQ(rate_text(800, {2, 256}), "800 Gb/sec (4X XDR)");
  EXPECT_EQ(rate_text(1600, {2, 512}), "1600 Gb/sec (4X SDR)");
}

}  // namespace
}  // namespace softhca
