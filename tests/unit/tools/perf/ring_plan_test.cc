#include "tools/perf/ring_plan.h"

#include <gtest/gtest.h>

#include <tuple>

namespace gdr::tools {
namespace {
TEST(PartOf, UnevenCount_CoversAllWithoutOverlap) {
  for (size_t count : {0, 1, 3, 31, 32, 33, 1000}) {
    size_t next = 5;
    for (size_t i = 0; i < 4; ++i) {
      ElementRange part = part_of({5, count}, 4, i, 1);
      EXPECT_EQ(part.first, next);
      next += part.count;
    }
    EXPECT_EQ(next, 5 + count);
  }
}

TEST(PartOf, Grain_AlignsEveryBorder) {
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(part_of({0, 1000}, 4, i, 32).first % 32, 0u);
  EXPECT_EQ(part_of({0, 1000}, 4, 1, 32).first, 256u);
}

// Runs the plans of all ranks on vectors of numbers, message by message, as the rings would.
class RingModel {
 public:
  RingModel(size_t count, int ranks, size_t slice) : ranks_(ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      plans_.push_back(make_ring_plan({0, count}, rank, ranks, slice));
      input_.emplace_back(count);
      for (size_t i = 0; i < count; ++i) input_.back()[i] = 100 * rank + static_cast<long>(i);
      output_.emplace_back(count, -1);
    }
    sent_.resize(ranks);
    received_.resize(ranks);
  }

  // True when every message found its match.
  bool run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < ranks_; ++rank) moved |= step(rank);
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      if (sent_[rank] != plans_[rank].send.size() || received_[rank] != plans_[rank].recv.size()) {
        return false;
      }
    }
    return true;
  }

  const std::vector<long>& output(int rank) const { return output_[rank]; }

 private:
  bool step(int rank) {
    const RingPlan& plan = plans_[rank];
    size_t index = sent_[rank];
    if (index == plan.send.size()) return false;
    bool own = index < plan.own_sends;
    if (!own && index - plan.own_sends >= received_[rank]) return false;
    int next = (rank + 1) % ranks_;
    const Slice& from = plan.send[index];
    if (received_[next] == plans_[next].recv.size()) return false;
    const Slice& to = plans_[next].recv[received_[next]];
    EXPECT_EQ(std::tie(from.first, from.count), std::tie(to.first, to.count));
    for (size_t i = from.first; i < from.first + from.count; ++i) {
      long value = own ? input_[rank][i] : output_[rank][i];
      output_[next][i] = to.reduce ? input_[next][i] + value : value;
    }
    ++sent_[rank];
    ++received_[next];
    return true;
  }

  int ranks_;
  std::vector<RingPlan> plans_;
  std::vector<std::vector<long>> input_;
  std::vector<std::vector<long>> output_;
  std::vector<size_t> sent_;
  std::vector<size_t> received_;
};

class EveryRing : public testing::TestWithParam<std::tuple<size_t, int, size_t>> {};

TEST_P(EveryRing, Run_GivesEveryRankTheSum) {
  auto [count, ranks, slice] = GetParam();
  RingModel model(count, ranks, slice);
  ASSERT_TRUE(model.run());
  for (int rank = 0; rank < ranks; ++rank) {
    for (size_t i = 0; i < count; ++i) {
      long sum = 100L * ranks * (ranks - 1) / 2 + ranks * static_cast<long>(i);
      ASSERT_EQ(model.output(rank)[i], sum) << "rank " << rank << " element " << i;
    }
  }
}

// Counts below, equal to and not divisible by the ranks; slices below and above a segment.
INSTANTIATE_TEST_SUITE_P(Shapes, EveryRing,
                         testing::Combine(testing::Values(0, 1, 4, 7, 1001),
                                          testing::Values(2, 3, 4, 7),
                                          testing::Values(1, 64, 5000)));

TEST(RingPlan, FewElements_LeavesOutEmptyMessages) {
  RingPlan plan = make_ring_plan({0, 1}, 2, 4, 64);
  EXPECT_EQ(plan.own_sends, 0u);
  for (const Slice& slice : plan.recv) EXPECT_GT(slice.count, 0u);
}
}  // namespace
}  // namespace gdr::tools
