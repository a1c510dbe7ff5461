// The modelled link as arithmetic: when a transfer completes, given what the link carries already.
#include "softhca/model/link_model.h"

#include <gtest/gtest.h>

namespace softhca {
namespace {

struct Link {
  std::atomic<uint64_t> near_ns{0};
  std::atomic<uint64_t> far_ns{0};
  LinkEnds ends() { return {&near_ns, &far_ns}; }
};

TEST(LinkModel, NeitherRateNorLatency_NotModelled) {
  LinkModel model(0, 0, 0);
  EXPECT_FALSE(model.modelled());
  model.set_rate(1);
  EXPECT_TRUE(model.modelled());
}

TEST(LinkModel, Idle_TransferTakesBytesOverRatePlusLatency) {
  LinkModel model(8, 2, 0);  // 1 byte per ns, 2 us
  Link link;
  EXPECT_EQ(model.reserve(link.ends(), 1000, 500, 500), 500u + 1000 + 2000);
  EXPECT_EQ(link.near_ns.load(), 1500u);
  EXPECT_EQ(link.far_ns.load(), 1500u);
}

TEST(LinkModel, SecondTransfer_StartsWhenTheFirstHasLeft) {
  LinkModel model(8, 2, 0);
  Link link;
  model.reserve(link.ends(), 1000, 0, 0);
  EXPECT_EQ(model.reserve(link.ends(), 500, 100, 100), 1500u + 2000);
}

// A send queue reserves for its requests one after the other.
TEST(LinkModel, ReservedWhenTheFirstIsComplete_LeavesRightBehindIt) {
  LinkModel model(8, 2, 0);
  Link link;
  const uint64_t first = model.reserve(link.ends(), 1000, 0, 0);
  EXPECT_EQ(model.reserve(link.ends(), 500, 0, first), 1500u + 2000);
  EXPECT_EQ(model.reserve(link.ends(), 500, 9000, 9000), 9500u + 2000) << "posted later";
  EXPECT_EQ(model.reserve(link.ends(), 500, 9000, 99000), 97500u + 2000) << "held up meanwhile";
}

TEST(LinkModel, FarEndBusy_TransferWaitsForIt) {
  LinkModel model(8, 0, 0);
  Link link;
  link.far_ns = 10000;
  EXPECT_EQ(model.reserve(link.ends(), 1000, 0, 0), 11000u);
}

TEST(LinkModel, NotConnected_OnlyTheNearEndCounts) {
  LinkModel model(8, 0, 0);
  Link link;
  EXPECT_EQ(model.reserve({&link.near_ns, nullptr}, 1000, 0, 0), 1000u);
}

TEST(LinkModel, RandomDelay_IsAnyBelowTheLimit) {
  LinkModel model(0, 0, 2);
  std::set<uint64_t> delays;
  for (int i = 0; i < 100; ++i) delays.insert(model.random_delay());
  EXPECT_LT(*delays.begin(), 100u);
  EXPECT_GT(*delays.rbegin(), 1900u);
  EXPECT_LT(*delays.rbegin(), 2000u);
}

}  // namespace
}  // namespace softhca
