// A set of address ranges that finds one which covers a given range, in O(log n) expected steps
// however the ranges nest and overlap (tests/bench/registration_cache_bench.cc measures up to 10^5
// ranges; a sorted array would take O(n) for overlapping ones).
//
// It is a treap: a search tree by the begin of the ranges, kept balanced by random priorities, in
// which every node knows the greatest end in its subtree. The priorities are the same in every run.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <random>

namespace gdr::transport {

// A range [begin, end). It is the base of what the range describes; the tree links such objects
// together and neither owns nor copies them.
class RangeNode {
 public:
  RangeNode(uintptr_t first, uintptr_t past_last) : begin(first), end(past_last) {}
  RangeNode(const RangeNode&) = delete;
  RangeNode& operator=(const RangeNode&) = delete;

  const uintptr_t begin;
  const uintptr_t end;

 private:
  friend class CoveringTree;
  uintptr_t greatest_end_ = 0;  // of the subtree
  uint32_t priority_ = 0;       // at least that of each child
  RangeNode* left_ = nullptr;
  RangeNode* right_ = nullptr;
};

class CoveringTree {
 public:
  // Adds a node that is in no tree; no node of this tree may have the same range. The node must not
  // be destroyed or moved before it is erased.
  void insert(RangeNode* node);
  // Removes a node of this tree.
  void erase(const RangeNode* node);

  // Returns a node whose range contains all of [begin, end); null if there is none.
  RangeNode* find_covering(uintptr_t begin, uintptr_t end) const;

 private:
  struct Halves {
    RangeNode* before;
    RangeNode* after;
  };

  static bool precedes(const RangeNode& a, const RangeNode& b);
  static void update(RangeNode* node);
  static Halves split(RangeNode* root, const RangeNode& at);
  static RangeNode* join(RangeNode* before, RangeNode* after);
  static RangeNode* without(RangeNode* root, const RangeNode& gone);

  std::minstd_rand random_;
  RangeNode* root_ = nullptr;
};

}  // namespace gdr::transport
