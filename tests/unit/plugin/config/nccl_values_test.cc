#include "plugin/config/nccl_values.h"

#include <gtest/gtest.h>

namespace gdr::config {
namespace {

using Kind = topology::nccl::NetDevicesPolicy::Kind;

TEST(DevicesPolicy, Names_AreReadInEitherCase) {
  EXPECT_EQ(DevicesPolicy{}.policy().kind, Kind::kAuto);
  EXPECT_EQ(DevicesPolicy::parse("auto")->policy().kind, Kind::kAuto);
  EXPECT_EQ(DevicesPolicy::parse("All")->policy().kind, Kind::kAll);
  EXPECT_EQ(DevicesPolicy::parse("max:3")->policy().kind, Kind::kMax);
  EXPECT_EQ(DevicesPolicy::parse("max:3")->policy().max, 3);
  EXPECT_EQ(DevicesPolicy::parse("max:3")->to_string(), "MAX:3");
}

TEST(DevicesPolicy, WhatNcclIgnores_IsRejected) {
  for (const char* text : {"", "some", "MAX", "MAX:", "MAX:0", "MAX:-1", "MAX:x"}) {
    EXPECT_FALSE(DevicesPolicy::parse(text)) << text;
  }
}

TEST(NcclSwitch, Numbers_AreOnUnlessZero) {
  EXPECT_FALSE(NcclSwitch::parse("0")->on());
  EXPECT_TRUE(NcclSwitch::parse("-1")->on());
  EXPECT_EQ(NcclSwitch::parse("2")->to_string(), "2");
  EXPECT_FALSE(NcclSwitch::parse("yes"));
}

}  // namespace
}  // namespace gdr::config
