#include "transport/device/covering_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <list>
#include <random>

namespace gdr::transport {
namespace {

bool node_covers(const RangeNode& node, uintptr_t begin, uintptr_t end) {
  return node.begin <= begin && node.end >= end;
}

TEST(CoveringTreeTest, EmptyTree_CoversNothing) {
  CoveringTree tree;
  EXPECT_EQ(tree.find_covering(1, 2), nullptr);
}

TEST(CoveringTreeTest, LargeRangeBeforeManySmallOnes_IsFound) {
  CoveringTree tree;
  std::list<RangeNode> nodes;
  tree.insert(&nodes.emplace_back(0, 10000));
  for (uintptr_t at = 10; at < 5000; at += 10) tree.insert(&nodes.emplace_back(at, at + 5));
  EXPECT_EQ(tree.find_covering(4995, 5001), &nodes.front());
  tree.erase(&nodes.front());
  EXPECT_EQ(tree.find_covering(4995, 5001), nullptr);
}

TEST(CoveringTreeTest, RangesWithOneBegin_AreDistinct) {
  CoveringTree tree;
  RangeNode small(10, 20), large(10, 40), middle(10, 30);
  for (RangeNode* node : {&small, &large, &middle}) tree.insert(node);
  EXPECT_EQ(tree.find_covering(10, 40), &large);
  tree.erase(&large);
  EXPECT_EQ(tree.find_covering(10, 40), nullptr);
  EXPECT_EQ(tree.find_covering(10, 30), &middle);
}

TEST(CoveringTreeTest, ErasedNode_CanBeInsertedAgain) {
  CoveringTree tree;
  RangeNode node(10, 20);
  for (int i = 0; i < 3; ++i) {
    tree.insert(&node);
    EXPECT_EQ(tree.find_covering(12, 13), &node);
    tree.erase(&node);
    EXPECT_EQ(tree.find_covering(12, 13), nullptr);
  }
}

TEST(CoveringTreeTest, RandomRanges_AreFoundAsByLinearSearch) {
  std::mt19937 random(1);
  auto below = [&](uintptr_t bound) { return random() % bound; };
  CoveringTree tree;
  std::list<RangeNode> live;
  for (int step = 0; step < 20000; ++step) {
    uintptr_t begin = below(100), end = begin + 1 + below(step % 2000 < 1000 ? 100 : 10);
    auto same = [&](const RangeNode& n) { return n.begin == begin && n.end == end; };
    if (std::none_of(live.begin(), live.end(), same)) tree.insert(&live.emplace_back(begin, end));
    if (live.size() > below(200)) {
      auto gone = std::next(live.begin(), static_cast<ptrdiff_t>(below(live.size())));
      tree.erase(&*gone);
      live.erase(gone);
    }
    uintptr_t first = below(110), past = first + 1 + below(50);
    auto fits = [&](const RangeNode& n) { return node_covers(n, first, past); };
    const RangeNode* found = tree.find_covering(first, past);
    ASSERT_EQ(found != nullptr, std::any_of(live.begin(), live.end(), fits)) << "step " << step;
    ASSERT_TRUE(found == nullptr || fits(*found)) << "step " << step;
  }
}

}  // namespace
}  // namespace gdr::transport
