#include "tests/model/explorer.h"

#include <gtest/gtest.h>

namespace gdr::model {
namespace {

// Two steps lead from 0 to states that behave alike; only the second one has violated a property.
struct TwoWays {
  struct Step {
    char name;
    bool fault = false;
  };
  struct State {
    int number = 0;
    bool broken = false;
  };

  State initial() const { return {}; }
  void successors(const State& state, std::vector<std::pair<Step, State>>* next) const {
    if (state.number == 0) *next = {{{'a'}, {1, false}}, {{'b'}, {1, true}}};
  }
  const char* violation(const State& state) const { return state.broken ? "broken" : nullptr; }
  bool is_end(const State& state) const { return state.number == 1; }
  uint64_t fingerprint(const State& state) const { return state.number + 7; }
};

TEST(Explorer, ViolationOnTheWayToAKnownState_IsFoundWithItsSteps) {
  const TwoWays model;
  const auto found = Explorer(model).run();
  EXPECT_EQ(found.violation, "broken");
  ASSERT_EQ(found.trace.size(), 1u);
  EXPECT_EQ(found.trace[0].name, 'b');
}

// 2 is no end, and nothing leads from it; 1 is one.
struct DeadEnd : TwoWays {
  void successors(const State& state, std::vector<std::pair<Step, State>>* next) const {
    if (state.number == 0) *next = {{{'a'}, {1, false}}, {{'b'}, {2, false}}};
  }
};

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
