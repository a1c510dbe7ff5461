#include "tools/topo/layout.h"

#include <algorithm>
#include <cmath>

namespace gdr::topology {
namespace {

constexpr double kCardWidth = 172;
constexpr double kGutter = 18;  // beside a card, for the lines of rails
constexpr double kGap = 12;
constexpr double kPadding = 10;
constexpr double kPictureWidth = 1800;  // aimed at
constexpr double kLeastFrameWidth = 430;
constexpr size_t kHcasBelowGpu = 4;
constexpr size_t kHcasInColumn = 2;  // without a GPU
constexpr int kGpuLines = 3;
constexpr int kHcaLines = 2;

// A frame with blocks in it, or a column of cards. Positions are relative to the block around it.
struct Block {
  const TreeNode* node = nullptr;  // null: a column
  int gpu = -1;
  std::vector<int> hcas;
  std::vector<Block> children;
  Rect rect;
};

// HCAs in the order of the GPU's rails.
std::vector<int> hcas_of(const RailPlan& plan, int gpu) {
  std::vector<int> hcas;
  for (int rail : plan.gpus[gpu].rails) hcas.push_back(plan.rails[rail].port.hca);
  return hcas;
}

std::vector<Block> columns_of(const TreeNode& node, const RailPlan& plan) {
  std::vector<Block> columns;
  std::vector<int> left = node.hcas;
  for (int gpu : node.gpus) {
    Block column;
    column.gpu = gpu;
    for (int hca : hcas_of(plan, gpu)) {
      auto found = std::find(left.begin(), left.end(), hca);
      if (found == left.end() || column.hcas.size() == kHcasBelowGpu) continue;
      column.hcas.push_back(hca);
      left.erase(found);
    }
    columns.push_back(std::move(column));
  }
  for (size_t i = 0; i < left.size(); i += kHcasInColumn) {
    Block column;
    for (size_t j = i; j < std::min(left.size(), i + kHcasInColumn); ++j) {
      column.hcas.push_back(left[j]);
    }
    columns.push_back(std::move(column));
  }
  return columns;
}

class Layouter {
 public:
  explicit Layouter(const RailDecision& view) : view_(view), tree_(machine_tree(view.machine)) {}

  Layout run() {
    frame_width_ = std::max(2 * kLeastFrameWidth, kPictureWidth / top_frames());
    Block root = block_of(tree_);
    size_pass(&root, kPictureWidth);
    layout_.gpus.resize(view_.machine.gpus.size());
    layout_.hcas.resize(view_.machine.hcas.size());
    place_pass(root, 0, 0);
    layout_.width = root.rect.width;
    layout_.height = root.rect.height;
    return std::move(layout_);
  }

 private:
  double top_frames() const {
    return static_cast<double>(std::max<size_t>(1, tree_.children.size()));
  }

  Block block_of(const TreeNode& node) {
    Block block;
    block.node = &node;
    block.children = columns_of(node, view_.plan);
    for (const TreeNode& child : node.children) block.children.push_back(block_of(child));
    return block;
  }

  double hca_height(int hca) const {
    double ports = static_cast<double>(view_.machine.hcas[hca].ports.size());
    return kHeaderHeight + kHcaLines * kLineHeight + ports * kPortHeight + 6;
  }
  static double gpu_height() { return kHeaderHeight + kGpuLines * kLineHeight + 6; }

  void size_column(Block* column) const {
    double height = column->gpu >= 0 ? gpu_height() + kGap : 0;
    for (int hca : column->hcas) height += hca_height(hca) + kGap;
    column->rect.width = kCardWidth + 2 * kGutter;
    column->rect.height = height - kGap;
  }

  // Sizes the block and puts its children in rows no wider than `width`, of about the same length.
  void size_pass(Block* block, double width) {
    if (block->node == nullptr) return size_column(block);
    bool is_root = block->node->kind == TreeNode::Kind::kMachine;
    double inner = std::max(kLeastFrameWidth, width - 2 * kPadding);
    double total = 0, widest = 0;
    for (Block& child : block->children) {
      size_pass(&child, is_root ? frame_width_ : inner);
      total += child.rect.width + kGap;
      widest = std::max(widest, child.rect.width);
    }
    double rows = std::ceil(total / std::max(inner, widest));
    double limit = rows <= 1 ? total : std::max(widest, total / rows + widest / 2);
    double top = is_root ? 0 : kLabelHeight;
    double right = 0;
    for (size_t first = 0; first < block->children.size();) {
      size_t end = row_end(*block, first, limit);
      place_row(block, first, end, &top, &right);
      first = end;
    }
    block->rect.width = std::max(right + kPadding, is_root ? 0 : label_width(*block));
    block->rect.height = std::max(top - kGap, kLabelHeight) + kPadding;
  }

  double label_width(const Block& block) const {
    return 7.0 * static_cast<double>(
                     std::min<size_t>(60, node_label(view_.machine, *block.node).size())) +
           2 * kPadding;
  }

  static size_t row_end(const Block& block, size_t first, double limit) {
    size_t end = first;
    double used = 0;
    while (end < block.children.size()) {
      used += block.children[end].rect.width + (end > first ? kGap : 0);
      if (end > first && used > limit) break;
      ++end;
    }
    return end;
  }

  // Boxes of one row get the same height.
  static void place_row(Block* block, size_t first, size_t end, double* top, double* right) {
    double x = kPadding, height = 0;
    for (size_t i = first; i < end; ++i) {
      height = std::max(height, block->children[i].rect.height);
    }
    for (size_t i = first; i < end; ++i) {
      Block& child = block->children[i];
      child.rect.x = x;
      child.rect.y = *top;
      if (child.node != nullptr) child.rect.height = height;
      x += child.rect.width + kGap;
    }
    *right = std::max(*right, x - kGap);
    *top += height + kGap;
  }

  void place_pass(const Block& block, double x, double y) {
    x += block.rect.x;
    y += block.rect.y;
    if (block.node == nullptr) return place_column(block, x, y);
    if (block.node->kind != TreeNode::Kind::kMachine) {
      layout_.frames.push_back({block.node->kind, node_label(view_.machine, *block.node),
                                Rect{x, y, block.rect.width, block.rect.height}});
    }
    for (const Block& child : block.children) place_pass(child, x, y);
  }

  void place_column(const Block& column, double x, double y) {
    x += kGutter;
    if (column.gpu >= 0) {
      layout_.gpus[column.gpu] = Rect{x, y, kCardWidth, gpu_height()};
      y += gpu_height() + kGap;
    }
    for (int hca : column.hcas) {
      layout_.hcas[hca] = Rect{x, y, kCardWidth, hca_height(hca)};
      y += hca_height(hca) + kGap;
    }
  }

  const RailDecision& view_;
  TreeNode tree_;
  double frame_width_ = 0;
  Layout layout_;
};

}  // namespace

Layout lay_out(const RailDecision& view) { return Layouter(view).run(); }

Rect port_rect(const Rect& card, size_t port) {
  double y = card.y + kHeaderHeight + kHcaLines * kLineHeight + 3;
  return Rect{card.x + 6, y + static_cast<double>(port) * kPortHeight, card.width - 12,
              kPortHeight - 2};
}

}  // namespace gdr::topology
