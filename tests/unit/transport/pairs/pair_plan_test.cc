#include "transport/pairs/pair_plan.h"

#include <gtest/gtest.h>

namespace gdr::transport {
namespace {

// "0 1 0 1 2s": the rails, those of standby pairs with an s, without a QP with a dash.
std::string text(const PairPlan& plan) {
  std::string text;
  for (const PairPlace& place : plan) {
    text += (text.empty() ? "" : " ") + std::to_string(place.rail) + (place.standby ? "s" : "") +
            (place.has_qp ? "" : "-");
  }
  return text;
}

wire::EndPoint hello(const PairPlan& plan) {
  wire::EndPoint end{};
  end.qps = static_cast<uint16_t>(plan.size());
  for (size_t i = 0; i < plan.size(); ++i) {
    end.qp[i].number = plan[i].has_qp ? 1 : 0;
    end.qp[i].standby = plan[i].standby ? 1 : 0;
    end.qp[i].rail = static_cast<uint8_t>(plan[i].rail);
  }
  return end;
}

std::string receiver(size_t active, size_t standby, const PairPlan& sender) {
  return text(plan_receiver_pairs(active, standby, hello(sender)));
}

TEST(PairPlanTest, Sender_ItsPairsAlternateAndStandbyOnesComeLast) {
  const struct {
    size_t active, standby;
    int qps;
    ListenerRails peer;
    const char* plan;
  } cases[] = {
      {1, 0, 1, {}, "0"},
      {1, 0, 3, {}, "0 0 0"},
      {2, 0, 1, {}, "0 1"},
      {2, 1, 2, {}, "0 1 0 1 2s"},
      {1, 2, 1, {2, 0}, "0 0 1s 2s"},
      // Only the peer has another rail, on which the receiver can put its end.
      {1, 0, 1, {1, 1}, "0 0s"},
      {2, 0, 1, {1, 1}, "0 1 1s"},
      // A standby pair between the rails of an active one would be lost together with that.
      {2, 0, 1, {2, 0}, "0 1"},
      {1, 0, 2, {2, 0}, "0 0 0 0"},
      {3, 0, 2, {3, 0}, "0 1 2 0 1 2"},
      // Each active rail of the peer gets a pair.
      {1, 0, 1, {2, 0}, "0 0"},
      {1, 1, 1, {4, 0}, "0 0 0 0 1s"},
      {3, 0, 1, {2, 0}, "0 1 2 2s"},
      // No multiple: each own rail has as many pairs, so that they share its load, too.
      {2, 0, 1, {3, 0}, "0 1 0 1 1s"},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(text(plan_sender_pairs(one.active, one.standby, one.qps, one.peer)), one.plan);
  }
}

TEST(PairPlanTest, MoreThanTheProtocolAllows_EachActiveRailHasAsMany) {
  EXPECT_EQ(plan_sender_pairs(1, 0, wire::kMaxQps, {}).size(), size_t{wire::kMaxQps});
  const PairPlan plan = plan_sender_pairs(3, 1, wire::kMaxQps, {});
  EXPECT_EQ(plan.size(), 127u);
  EXPECT_EQ(pairs_on_rail(plan, 0), 42);
  EXPECT_EQ(pairs_on_rail(plan, 2), 42);
  EXPECT_EQ(pairs_on_rail(plan, 3), 1);
}

TEST(PairPlanTest, Receiver_TakesItsRailsInTurn) {
  EXPECT_EQ(receiver(1, 0, plan_sender_pairs(2, 0, 1, {})), "0 0");
  EXPECT_EQ(receiver(2, 0, plan_sender_pairs(2, 0, 2, {})), "0 1 0 1");
  EXPECT_EQ(receiver(2, 0, plan_sender_pairs(1, 0, 3, {})), "0 1 0");
  EXPECT_EQ(receiver(1, 1, plan_sender_pairs(1, 1, 1, {})), "0 1s");
  EXPECT_EQ(receiver(1, 2, plan_sender_pairs(1, 3, 1, {})), "0 1s 2s 1s");
  EXPECT_EQ(receiver(2, 0, plan_sender_pairs(1, 0, 1, {2, 0})), "0 1");
  EXPECT_EQ(receiver(3, 0, plan_sender_pairs(2, 0, 1, {3, 0})), "0 1 2 0 2s");
  // Without standby rails it begins with its last active one: a standby pair on the rail of the
  // active one would be lost with that.
  EXPECT_EQ(receiver(2, 0, plan_sender_pairs(1, 1, 1, {})), "0 1s");
  EXPECT_EQ(receiver(3, 0, plan_sender_pairs(1, 2, 1, {})), "0 2s 1s");
}

TEST(PairPlanTest, ReceiverWithoutStandbyRail_PairsThatRepeatOthersHaveNoQp) {
  const PairPlan same_rails = plan_sender_pairs(1, 0, 1, {1, 1});
  EXPECT_EQ(text(same_rails), "0 0s");
  EXPECT_EQ(receiver(1, 1, same_rails), "0 1s");
  EXPECT_EQ(receiver(1, 0, same_rails), "0 0s-");
  const PairPlan other_rail = plan_sender_pairs(1, 1, 1, {});
  EXPECT_EQ(receiver(1, 0, other_rail), "0 0s");
  EXPECT_EQ(receiver(1, 1, {{0, false}, {0, true, false}}), "0 1s-");
}

TEST(PairPlanTest, RailsAreMissing_OnlyTheirPairsMove) {
  EXPECT_EQ(text(plan_without({{0, false}, {1, false}, {0, false}, {1, false}}, 2, 0, {{0, {}}})),
            "1 1 1 1");
  EXPECT_EQ(text(plan_without({{0, false}, {1, false}, {2, false}}, 3, 0, {{1, {}}})), "0 0 2");
  EXPECT_EQ(text(plan_without({{0, false}, {1, false}, {2, true}}, 2, 1, {{0, {}}})), "1 1 2s");
  EXPECT_EQ(text(plan_without({{0, false}, {1, false}, {1, true}}, 2, 0, {{1, {}}})), "0 0 1s-");
  EXPECT_EQ(text(plan_without({{0, false}, {0, false}, {1, true}, {2, true}}, 1, 2, {{0, {}}})),
            "1 2 1s 2s");
  EXPECT_EQ(
      text(plan_without({{0, false}, {0, false}, {1, true}, {2, true}}, 1, 2, {{1, {}}, {0, {}}})),
      "2 2 1s- 2s");
}

}  // namespace
}  // namespace gdr::transport
