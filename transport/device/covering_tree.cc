#include "transport/device/covering_tree.h"

#include <algorithm>
#include <utility>

namespace gdr::transport {

RangeNode* CoveringTree::find_covering(uintptr_t begin, uintptr_t end) const {
  RangeNode* node = root_;
  while (node != nullptr) {
    // If this node begins early enough, so does everything on its left: a range there that ends
    // late enough covers [begin, end).
    if (node->begin > begin || (node->left_ != nullptr && node->left_->greatest_end_ >= end)) {
      node = node->left_;
    } else if (node->end >= end) {
      return node;
    } else {
      node = node->right_;
    }
  }
  return nullptr;
}

void CoveringTree::insert(RangeNode* node) {
  node->left_ = node->right_ = nullptr;
  node->priority_ = static_cast<uint32_t>(random_());
  update(node);
  Halves halves = split(root_, *node);
  root_ = join(join(halves.before, node), halves.after);
}

void CoveringTree::erase(const RangeNode* node) { root_ = without(root_, *node); }

bool CoveringTree::precedes(const RangeNode& a, const RangeNode& b) {
  return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
}

void CoveringTree::update(RangeNode* node) {
  node->greatest_end_ = node->end;
  for (const RangeNode* child : {node->left_, node->right_}) {
    if (child != nullptr) node->greatest_end_ = std::max(node->greatest_end_, child->greatest_end_);
  }
}

CoveringTree::Halves CoveringTree::split(RangeNode* root, const RangeNode& at) {
  if (root == nullptr) return {nullptr, nullptr};
  Halves halves;
  if (precedes(*root, at)) {
    halves = split(root->right_, at);
    root->right_ = std::exchange(halves.before, root);
  } else {
    halves = split(root->left_, at);
    root->left_ = std::exchange(halves.after, root);
  }
  update(root);
  return halves;
}

RangeNode* CoveringTree::join(RangeNode* before, RangeNode* after) {
  if (before == nullptr) return after;
  if (after == nullptr) return before;
  if (before->priority_ >= after->priority_) {
    before->right_ = join(before->right_, after);
    update(before);
    return before;
  }
  after->left_ = join(before, after->left_);
  update(after);
  return after;
}

RangeNode* CoveringTree::without(RangeNode* root, const RangeNode& gone) {
  if (root == &gone) return join(root->left_, root->right_);
  RangeNode*& side = precedes(gone, *root) ? root->left_ : root->right_;
  side = without(side, gone);
  update(root);
  return root;
}

}  // namespace gdr::transport
