// Deals items to holders at the least total cost.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace gdr::topology {

// How many items a holder gets: `must`, or one more where `may_have_more`.
struct Holder {
  size_t must = 0;
  bool may_have_more = false;
};

// Where the holders that have more come to lie if all deals cost the same.
enum class MoreGoesTo { kFirstHolders, kLastHolders };

// Returns the items of each holder, ascending, so that the sum of cost(item, holder) is the least.
// All `items` are dealt out; the holders have to leave room for them and must not need more. Among
// deals of equal cost items that follow each other go to one holder or to holders that follow each
// other. Costs are not negative and at most 10^12. The time grows with the third power of `items`.
std::vector<std::vector<size_t>> deal(
    size_t items, const std::vector<Holder>& holders, MoreGoesTo more,
    const std::function<int64_t(size_t item, size_t holder)>& cost);

}  // namespace gdr::topology
