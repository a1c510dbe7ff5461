#include "tools/inspection/inspect_settings.h"

#include <gmock/gmock.h>

#include "plugin/config/load.h"

namespace gdr::tools::topo {
namespace {

using topology::PathClass;
using Kind = topology::nccl::NetDevicesPolicy::Kind;

topology::nccl::Settings settings_of(const config::Environment& environment) {
  Findings findings;
  const config::Options options = config::load(environment, &findings);
  const topology::nccl::Settings settings = nccl_settings(environment, options, &findings);
  EXPECT_TRUE(findings.empty());
  return settings;
}

TEST(NcclSettings, EachVariable_ReachesItsOwnField) {
  const topology::nccl::Settings unset = settings_of({{"NCCL_NET_GDR_C2C", ""}});
  EXPECT_FALSE(unset.gdr_c2c.has_value());
  EXPECT_FALSE(unset.p2p_level.has_value());
  EXPECT_EQ(unset.net_devices.kind, Kind::kAuto);
  EXPECT_TRUE(settings_of({{"NCCL_NET_GDR_MLOPART", "2"}}).gdr_mlopart);
  EXPECT_EQ(settings_of({{"NCCL_PXN_C2C", "0"}}).pxn_c2c, false);
  EXPECT_TRUE(settings_of({{"NCCL_NVB_DISABLE", "1"}}).nvb_disable);
  EXPECT_EQ(settings_of({{"NCCL_P2P_LEVEL", "PHB"}}).p2p_level, PathClass::kPhb);
  EXPECT_EQ(settings_of({{"NCCL_NET_GDR_READ", "0"}}).gdr_read, 0);
  EXPECT_EQ(settings_of({{"NCCL_NET_GDR_LEVEL", "PHB"}}).gdr_level, PathClass::kPhb);
  EXPECT_TRUE(settings_of({{"NCCL_PXN_DISABLE", "1"}}).pxn_disable);
  for (const char* on : {"1", "2", "-1", "0x10"}) {
    EXPECT_EQ(settings_of({{"NCCL_NET_GDR_C2C", on}}).gdr_c2c, true) << on;
  }
  // NCCL_P2P_DISABLE counts before the level.
  const config::Environment level = {{"NCCL_P2P_LEVEL", "PHB"}, {"NCCL_P2P_DISABLE", "1"}};
  EXPECT_EQ(settings_of(level).p2p_level, PathClass::kLoc);
  EXPECT_FALSE(settings_of({{"NCCL_P2P_DISABLE", "0"}}).p2p_level.has_value());
}

TEST(NcclSettings, Policy_IsReadInEitherCase) {
  const auto policy = [](const char* text) {
    return settings_of({{"NCCL_NETDEVS_POLICY", text}}).net_devices;
  };
  EXPECT_EQ(policy("auto").kind, Kind::kAuto);
  EXPECT_EQ(policy("All").kind, Kind::kAll);
  EXPECT_EQ(policy("max:3").kind, Kind::kMax);
  EXPECT_EQ(policy("max:3").max, 3);
}

TEST(NcclSettings, WhatNcclIgnores_IsAnErrorAndTheDefaultCounts) {
  const std::pair<const char*, const char*> bad[] = {
      {"NCCL_NETDEVS_POLICY", "some"},  {"NCCL_NETDEVS_POLICY", "MAX"},
      {"NCCL_NETDEVS_POLICY", "MAX:0"}, {"NCCL_NETDEVS_POLICY", "MAX:x"},
      {"NCCL_NET_GDR_C2C", "on"},       {"NCCL_P2P_LEVEL", "pix"},
      {"NCCL_P2P_DISABLE", "no"}};
  for (const auto& [name, value] : bad) {
    Findings findings;
    const topology::nccl::Settings settings = nccl_settings({{name, value}}, {}, &findings);
    ASSERT_EQ(findings.size(), 1u) << name << "=" << value;
    EXPECT_EQ(findings[0].severity, Severity::kError);
    EXPECT_EQ(findings[0].subject, name);
    EXPECT_THAT(findings[0].text, testing::HasSubstr("cannot be used"));
    EXPECT_EQ(settings.net_devices.kind, Kind::kAuto);
    EXPECT_FALSE(settings.gdr_c2c.has_value() || settings.p2p_level.has_value());
  }
}

}  // namespace
}  // namespace gdr::tools::topo
