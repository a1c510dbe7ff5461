#include "transport/device/covering_ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <list>
#include <random>

namespace gdr::transport {
namespace {

struct Range {
  uintptr_t begin, end;
  bool covers(uintptr_t first, uintptr_t past) const { return begin <= first && end >= past; }
};

struct Ranges : CoveringRanges<Range> {
  void insert(Range* range) { CoveringRanges::insert(range->begin, range->end, range); }
  void erase(const Range& range) { CoveringRanges::erase(range.begin, range.end); }
};

TEST(CoveringRangesTest, RandomRanges_AreFoundAsByLinearSearch) {
  std::mt19937 random(1);
  auto below = [&](uintptr_t bound) { return random() % bound; };
  Ranges ranges;
  std::list<Range> live;
  for (int step = 0; step < 20000; ++step) {
    uintptr_t begin = below(100), end = begin + 1 + below(step % 2000 < 1000 ? 100 : 10);
    auto same = [&](const Range& n) { return n.begin == begin && n.end == end; };
    if (std::ranges::none_of(live, same)) ranges.insert(&live.emplace_back(Range{begin, end}));
    if (live.size() > below(200)) {
      auto gone = std::next(live.begin(), static_cast<ptrdiff_t>(below(live.size())));
      ranges.erase(*gone);
      live.erase(gone);
    }
    uintptr_t first = below(110), past = first + 1 + below(50);
    auto fits = [&](const Range& n) { return n.covers(first, past); };
    const Range* found = ranges.find_covering(first, past);
    ASSERT_EQ(found != nullptr, std::any_of(live.begin(), live.end(), fits)) << "step " << step;
    ASSERT_TRUE(found == nullptr || fits(*found)) << "step " << step;
  }
}

}  // namespace
}  // namespace gdr::transport
