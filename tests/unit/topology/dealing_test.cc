#include "topology/dealing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace gdr::topology {
namespace {

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

}  // namespace
}  // namespace gdr::topology
