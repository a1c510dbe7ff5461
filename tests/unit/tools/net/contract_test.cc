#include "tools/net/contract.h"

#include <gtest/gtest.h>

#include <string>

namespace gdr::tools {
namespace {

TEST(Contract, EveryVersion_IsFoundByItsNumber) {
  EXPECT_EQ(kOldestTable, 6);
  EXPECT_EQ(kNewestTable, 12);
  for (int version = kOldestTable; version <= kNewestTable; ++version) {
    EXPECT_EQ(contract_of(version).version, version);
    EXPECT_TRUE(std::string(contract_of(version).first_nccl).starts_with("2.")) << version;
  }
}

// The facts in which neighbours differ, by NCCL's headers and shims.
TEST(Contract, Facts_BeginWithTheirVersion) {
  for (const Contract& one : kContracts) {
    int version = one.version;
    EXPECT_EQ(one.max_requests, version >= 7 ? 32 : 8);
    EXPECT_EQ(one.largest_message > size_t{1} << 30, version >= 9) << version;
    EXPECT_EQ(one.largest_registration > size_t{1} << 31, version >= 8) << version;
    EXPECT_EQ(one.optional_receive_completion, version >= 9);
    EXPECT_EQ(one.traffic_class, version >= 10);
    EXPECT_EQ(one.profiler, version >= 10);
    EXPECT_EQ(one.contexts, version >= 11);
    EXPECT_EQ(one.max_merged_devices, version >= 12 ? 8 : version >= 9 ? 4 : 0);
    EXPECT_EQ(one.rails_and_planes, version >= 12);
  }
}

TEST(NetEntries, Number_IsThatOfTheNewestTable) {
  // All slots of v12 but the name.
  EXPECT_EQ(net_entries().size(), 21u);
}

}  // namespace
}  // namespace gdr::tools
