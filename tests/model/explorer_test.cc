#include "tests/model/explorer.h"

#include <gtest/gtest.h>

namespace gdr::model {
namespace {

// Two steps lead from 0. 2 is no end, and nothing leads from it; 1 is one.
struct DeadEnd {
  struct Step {
    char name;
    bool fault = false;
  };
  using State = int;

  State initial() const { return 0; }
  void successors(const State& state, std::vector<std::pair<Step, State>>* next) const {
    if (state == 0) *next = {{{'a'}, 1}, {{'b'}, 2}};
  }
  const char* violation(const State&) const { return nullptr; }
  bool is_end(const State& state) const { return state == 1; }
  uint64_t fingerprint(const State& state) const { return state + 7; }
};

// Two steps lead to states that behave alike; only the second one has violated a property.
struct TwoWays : DeadEnd {
  static constexpr State kBroken = 11;

  void successors(const State& state, std::vector<std::pair<Step, State>>* next) const {
    if (state == 0) *next = {{{'a'}, 1}, {{'b'}, kBroken}};
  }
  const char* violation(const State& state) const { return state == kBroken ? "broken" : nullptr; }
  uint64_t fingerprint(const State& state) const { return state % 10 + 7; }
};

TEST(Explorer, ViolationOnTheWayToAKnownState_IsFoundWithItsSteps) {
  const TwoWays model;
  const auto found = Explorer(model).run();
  EXPECT_EQ(found.violation, "broken");
  ASSERT_EQ(found.trace.size(), 1u);
  EXPECT_EQ(found.trace[0].name, 'b');
}

TEST(Explorer, StateWithoutAWayToAnEnd_IsADeadlock) {
  const DeadEnd model;
  const auto found = Explorer(model).run();
  EXPECT_TRUE(found.complete);
  EXPECT_EQ(found.violation, "deadlock");
  ASSERT_EQ(found.trace.size(), 1u);
  EXPECT_EQ(found.trace[0].name, 'b');
}

}  // namespace
}  // namespace gdr::model
