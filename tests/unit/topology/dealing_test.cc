#include "topology/dealing.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace gdr::topology {
namespace {

using ::testing::ElementsAre;

int64_t same(size_t, size_t) { return 1; }

TEST(Deal, UnevenItems_GoWhereTheCallerWants) {
  const std::vector<Holder> holders(3, Holder{1, true});
  EXPECT_THAT(deal(5, holders, MoreGoesTo::kFirstHolders, same),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4)));
  EXPECT_THAT(deal(5, holders, MoreGoesTo::kLastHolders, same),
              ElementsAre(ElementsAre(0), ElementsAre(1, 2), ElementsAre(3, 4)));
  EXPECT_THAT(deal(0, {{0, true}}, MoreGoesTo::kFirstHolders, same), ElementsAre(ElementsAre()));
}

// Returns the least cost of giving one item to each holder, by trying all orders.
int64_t least_cost(const std::vector<std::vector<int64_t>>& costs) {
  std::vector<size_t> order(costs.size());
  std::iota(order.begin(), order.end(), 0);
  int64_t least = -1;
  do {
    int64_t sum = 0;
    for (size_t i = 0; i < order.size(); ++i) sum += costs[i][order[i]];
    if (least < 0 || sum < least) least = sum;
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

TEST(Deal, RandomCosts_GiveTheLeastSum) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const size_t size = 1 + random() % 6;
    std::vector<std::vector<int64_t>> costs(size, std::vector<int64_t>(size));
    for (auto& row : costs) {
      for (int64_t& cost : row) cost = static_cast<int64_t>(random() % 8);
    }
    const auto dealt =
        deal(size, std::vector<Holder>(size, Holder{1, false}), MoreGoesTo::kFirstHolders,
             [&](size_t item, size_t holder) { return costs[item][holder]; });
    int64_t sum = 0;
    for (size_t holder = 0; holder < size; ++holder) {
      ASSERT_EQ(dealt[holder].size(), 1u) << "round " << round;
      sum += costs[dealt[holder][0]][holder];
    }
    ASSERT_EQ(sum, least_cost(costs)) << "round " << round;
  }
}

TEST(Deal, OptionalRoom_IsUsedWhereItCostsLeast) {
  const auto dealt =
      deal(4, std::vector<Holder>(3, Holder{1, true}), MoreGoesTo::kFirstHolders,
           [](size_t item, size_t holder) { return item >= 2 && holder != 2 ? 1 : 0; });
  EXPECT_THAT(dealt, ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2, 3)));
}

}  // namespace
}  // namespace gdr::topology
