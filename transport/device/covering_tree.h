// Which of a set of address ranges covers a given one, in O(log n) steps however they nest and
// overlap: a treap in the order of the ranges, in which every node knows its subtree's greatest
// end. The steps are expected ones; priorities are random but the same in every run. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <random>

namespace gdr::transport {

// A range [begin, end), embedded in what it describes. The tree neither owns nor copies it.
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
  uint32_t priority_ = 0;       // no child's is greater
  RangeNode* left_ = nullptr;
  RangeNode* right_ = nullptr;
};

class CoveringTree {
 public:
  // The node is in no tree, and no node here has the same range. It lives until it is erased.
  void insert(RangeNode* node);
  void erase(const RangeNode* node);  // which is in this tree

  // A node whose range contains all of [begin, end); null when there is none.
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
