// A map by address ranges that finds a value whose range covers a given one, however the ranges
// nest and overlap.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

namespace gdr::transport {

// Not thread-safe. The values are not owned.
template <class Value>
class CoveringRanges {
 public:
  // Adds the range [begin, end), which is not empty and not in the map.
  void insert(uintptr_t begin, uintptr_t end, Value* value) {
    ranges_.emplace(std::pair(begin, end), value);
    longest_ = std::max(longest_, end - begin);
  }

  // Removes a range of the map.
  void erase(uintptr_t begin, uintptr_t end) {
    ranges_.erase({begin, end});
    if (ranges_.empty()) longest_ = 0;
  }

  // Returns the value of a range that contains all of [begin, end); null if there is none. It walks
  // back from the last range that begins early enough to the first one that is long enough, or
  // until what begins still earlier would be too short. That is few steps for ranges side by side,
  // and at most all of them: a process has some hundred, and a search costs much less than a
  // registration.
  Value* find_covering(uintptr_t begin, uintptr_t end) const {
    auto range = ranges_.upper_bound({begin, UINTPTR_MAX});
    while (range != ranges_.begin()) {
      --range;
      const auto& [first, past_last] = range->first;
      if (past_last >= end) return range->second;
      if (end - first > longest_) return nullptr;
    }
    return nullptr;
  }

 private:
  std::map<std::pair<uintptr_t, uintptr_t>, Value*> ranges_;
  uintptr_t longest_ = 0;  // at least the length of each range
};

}  // namespace gdr::transport
