#include "transport/device/port.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/fakes/verbs/fake_verbs.h"
#include "tests/unit/transport/device/gid_text.h"
#include "transport/device/hca.h"

namespace gdr::transport {
namespace {

TEST(LinkSpeed, KnownCodes_AreMegabitsOfAllLanes) {
  EXPECT_EQ(link_speed_mbps(32, 2), 100000);   // EDR x4
  EXPECT_EQ(link_speed_mbps(64, 2), 200000);   // HDR x4
  EXPECT_EQ(link_speed_mbps(128, 2), 400000);  // NDR x4
  EXPECT_EQ(link_speed_mbps(32, 1), 25000);
  EXPECT_EQ(link_speed_mbps(64, 16), 100000);  // HDR x2
}

TEST(LinkSpeed, UnknownCode_IsZero) {
  EXPECT_EQ(link_speed_mbps(3, 2), 0);
  EXPECT_EQ(link_speed_mbps(32, 0), 0);
  EXPECT_EQ(link_speed_mbps(1u << 31, 2), 0);
}

class ResolveGidTest : public ::testing::Test {
 protected:
  void open(const fake_verbs::HcaConfig& config) {
    hca_ = HcaContext::open(verbs_.api(), verbs_.add_hca(config)).value();
  }
  Result<GidEntry> resolve(const GidPreference& preference = {}) {
    return resolve_gid(hca_->api(), hca_->context(), 1, preference);
  }

  fake_verbs::FakeVerbs verbs_;
  std::shared_ptr<HcaContext> hca_;
};

TEST_F(ResolveGidTest, Roce_EntryMoves_IsFoundAtItsNewIndex) {
  open(fake_verbs::HcaConfig::roce("fake_0", 7));
  const GidEntry before = resolve().value();
  EXPECT_EQ(to_string(before.gid), "::ffff:10.0.0.7");
  std::vector<fake_verbs::Gid>& table = verbs_.port("fake_0", 1).gids;
  table.insert(table.begin(), fake_verbs::Gid{});
  const GidEntry after = resolve().value();
  EXPECT_EQ(after.gid, before.gid);
  EXPECT_EQ(after.index, before.index + 1);
}

TEST_F(ResolveGidTest, Roce_NoGid_NamesThePort) {
  open(fake_verbs::HcaConfig::roce("fake_0", 7));
  verbs_.port("fake_0", 1).gids.clear();
  Result<GidEntry> gid = resolve();
  ASSERT_FALSE(gid);
  EXPECT_NE(gid.error().text.find("fake_0:1: the port has no GID"), std::string::npos);
}

TEST_F(ResolveGidTest, InfiniBand_ForcedIndex_IsIgnored) {
  open(fake_verbs::HcaConfig::infiniband("fake_0", 7));
  EXPECT_EQ(resolve({.forced_index = 3}).value().index, 0);
}

TEST_F(ResolveGidTest, InfiniBand_RoutableIndexCarriesFlid_IsChosen) {
  open(fake_verbs::HcaConfig::infiniband("fake_0", 7));
  std::vector<fake_verbs::Gid>& table = verbs_.port("fake_0", 1).gids;
  table.push_back({gid("fec0:0:1234:5::7")});
  table.push_back({gid("fec0:0:4321:5::7")});
  EXPECT_EQ(resolve().value().index, 1) << "the default";
  EXPECT_EQ(flid_of(resolve().value().gid), 0x1234);
  EXPECT_EQ(resolve({.routable_index = 2}).value().index, 2);
  EXPECT_EQ(resolve({.routable_index = 0}).value().index, 0);
}

TEST_F(ResolveGidTest, InfiniBand_RoutableIndexWithoutFlidOrBeyondTheTable_IsZero) {
  open(fake_verbs::HcaConfig::infiniband("fake_0", 7));
  verbs_.port("fake_0", 1).gids.push_back({gid("fec0::5:0:0:0:7")});
  for (int index : {1, 2, 255}) {
    EXPECT_EQ(resolve({.routable_index = index}).value().index, 0) << index;
  }
}

TEST_F(ResolveGidTest, PortState_HasGrhRequirementAndMessageLimit) {
  open(fake_verbs::HcaConfig::infiniband("fake_0", 7));
  fake_verbs::Port& port = verbs_.port("fake_0", 1);
  auto query = [this] { return query_port_state(hca_->api(), hca_->context(), 1).value(); };
  EXPECT_FALSE(query().grh_required);
  EXPECT_EQ(query().max_message_bytes, 1u << 30);
  port.flags = IBV_QPF_GRH_REQUIRED;
  port.max_msg_sz = 1u << 23;
  EXPECT_TRUE(query().grh_required);
  EXPECT_EQ(query().max_message_bytes, 1u << 23);
  port.max_msg_sz = 0;
  EXPECT_EQ(query().max_message_bytes, kDefaultMessageBytes);
}

}  // namespace
}  // namespace gdr::transport
