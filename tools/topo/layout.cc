#include "tools/topo/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "tools/topo/labels.h"

namespace gdr::tools::topo {
namespace {

using Kind = TreeNode::Kind;
using Filter = std::function<bool(const Attachment&)>;

TreeNode switch_node(const Machine& machine, int index);

// Adds to the node the switches, GPUs and HCAs whose attachment the filter accepts.
void fill(const Machine& machine, const Filter& is_here, TreeNode* node) {
  for (size_t i = 0; i < machine.switches.size(); ++i) {
    if (!is_here(machine.switches[i].at)) continue;
    node->children.push_back(switch_node(machine, static_cast<int>(i)));
  }
  for (size_t i = 0; i < machine.gpus.size(); ++i) {
    if (is_here(machine.gpus[i].at)) node->gpus.push_back(static_cast<int>(i));
  }
  for (size_t i = 0; i < machine.hcas.size(); ++i) {
    if (is_here(machine.hcas[i].at)) node->hcas.push_back(static_cast<int>(i));
  }
}

TreeNode switch_node(const Machine& machine, int index) {
  TreeNode node{Kind::kSwitch, index, {}, {}, {}};
  fill(
      machine, [index](const Attachment& at) { return at.parent == index; }, &node);
  return node;
}

// Returns the host bridges that lead to a device on this NUMA node.
std::set<int> host_bridges_of(const Machine& machine, int numa) {
  std::set<int> bridges;
  auto add_bridge_of = [&](const Attachment& at) {
    if (at.parent < 0 && at.numa == numa && at.host_bridge >= 0) bridges.insert(at.host_bridge);
  };
  for (const Switch& one : machine.switches) add_bridge_of(one.at);
  for (const Gpu& gpu : machine.gpus) add_bridge_of(gpu.at);
  for (const Hca& hca : machine.hcas) add_bridge_of(hca.at);
  return bridges;
}

// Adds everything on a NUMA node (-1: everything that is on none).
void fill_numa(const Machine& machine, int numa, TreeNode* node) {
  auto filter = [numa](int bridge) {
    return [=](const Attachment& at) {
      return at.parent < 0 && at.numa == numa && at.host_bridge == bridge;
    };
  };
  for (int bridge : host_bridges_of(machine, numa)) {
    TreeNode child{Kind::kHostBridge, bridge, {}, {}, {}};
    fill(machine, filter(bridge), &child);
    node->children.push_back(std::move(child));
  }
  fill(machine, filter(-1), node);
}

void add_numa_nodes(const Machine& machine, int package, TreeNode* node) {
  for (size_t i = 0; i < machine.numa_nodes.size(); ++i) {
    if (machine.numa_nodes[i].package != package) continue;
    TreeNode child{Kind::kNumaNode, static_cast<int>(i), {}, {}, {}};
    fill_numa(machine, static_cast<int>(i), &child);
    node->children.push_back(std::move(child));
  }
}

constexpr double kCardWidth = 172;
constexpr double kGutter = 18;  // beside a card, for the lines of rails
constexpr double kGap = 12;
constexpr double kPadding = 10;
constexpr double kPictureWidth = 1800;  // which rows of boxes are broken to approach
constexpr double kMinFrameWidth = 430;
constexpr size_t kMaxHcasBelowGpu = 4;
constexpr size_t kMaxHcasInColumn = 2;  // in a column without a GPU
constexpr int kGpuLines = 4;
constexpr double kTagHeight = 17;
constexpr int kHcaLines = 2;

// A frame with blocks in it, a stack of frames, or a column of cards. Its position is relative to
// the block around it.
struct Block {
  enum class Kind { kFrame, kStack, kColumn };
  Kind kind = Kind::kColumn;
  const TreeNode* node = nullptr;  // only of a frame
  int gpu = -1;
  std::vector<int> hcas;
  std::vector<Block> children;
  Rect rect;
};

// Returns the HCAs of the GPU's rails, in the order of these.
std::vector<int> hcas_of(const RailPlan& plan, int gpu) {
  std::vector<int> hcas;
  for (const Rail* rail : plan.rails_of(gpu)) hcas.push_back(rail->port.hca);
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
      if (found == left.end() || column.hcas.size() == kMaxHcasBelowGpu) continue;
      column.hcas.push_back(hca);
      left.erase(found);
    }
    columns.push_back(std::move(column));
  }
  for (size_t i = 0; i < left.size(); i += kMaxHcasInColumn) {
    Block column;
    for (size_t j = i; j < std::min(left.size(), i + kMaxHcasInColumn); ++j) {
      column.hcas.push_back(left[j]);
    }
    columns.push_back(std::move(column));
  }
  return columns;
}

bool is_empty(const TreeNode& node) {
  return node.gpus.empty() && node.hcas.empty() &&
         std::all_of(node.children.begin(), node.children.end(), is_empty);
}

// Works in three passes: the tree of blocks, their sizes from the inside out, and their positions
// from the outside in.
class Layouter {
 public:
  explicit Layouter(const RailDecision& decision)
      : decision_(decision), tree_(machine_tree(decision.machine)), pairs_(rail_pairs(decision)) {}

  Layout run(double x, double y) {
    frame_width_ = std::max(2 * kMinFrameWidth, kPictureWidth / top_frames());
    Block root = block_of(tree_);
    size_pass(&root, kPictureWidth);
    layout_.gpus.resize(decision_.machine.gpus.size());
    layout_.hcas.resize(decision_.machine.hcas.size());
    place_pass(root, x, y);
    layout_.width = root.rect.width;
    layout_.height = root.rect.height;
    return std::move(layout_);
  }

 private:
  double top_frames() const {
    return static_cast<double>(std::max<size_t>(1, tree_.children.size()));
  }

  // Empty frames, such as NUMA nodes without devices, are stacked behind the others.
  Block block_of(const TreeNode& node) const {
    Block block;
    block.kind = Block::Kind::kFrame;
    block.node = &node;
    block.children = columns_of(node, decision_.plan);
    Block stack;
    stack.kind = Block::Kind::kStack;
    for (const TreeNode& child : node.children) {
      (is_empty(child) ? stack : block).children.push_back(block_of(child));
    }
    if (!stack.children.empty()) block.children.push_back(std::move(stack));
    return block;
  }

  double tags_height(int gpu) const {
    const size_t tags = decision_.plan.gpus[static_cast<size_t>(gpu)].rails.size();
    return kTagHeight * static_cast<double>(tags);
  }

  double hca_height(int hca) const {
    double ports = static_cast<double>(decision_.machine.hcas[hca].ports.size());
    return kHeaderHeight + kHcaLines * kLineHeight + ports * kPortHeight + 6;
  }
  static double gpu_height() { return kHeaderHeight + kGpuLines * kLineHeight + 6; }

  void size_column(Block* column) const {
    double height = column->gpu >= 0 ? gpu_height() + tags_height(column->gpu) + kGap : 0;
    for (int hca : column->hcas) height += hca_height(hca) + kGap;
    column->rect.width = kCardWidth + 2 * kGutter;
    column->rect.height = height - kGap;
  }

  void size_stack(Block* stack, double width) {
    double y = 0;
    for (Block& child : stack->children) {
      size_pass(&child, width);
      child.rect.y = y;
      y += child.rect.height + kGap;
      stack->rect.width = std::max(stack->rect.width, child.rect.width);
    }
    for (Block& child : stack->children) child.rect.width = stack->rect.width;
    stack->rect.height = y - kGap;
  }

  // Sizes the block and arranges its children in rows of about equal length, no wider than `width`
  // where that is possible.
  void size_pass(Block* block, double width) {
    if (block->kind == Block::Kind::kColumn) return size_column(block);
    if (block->kind == Block::Kind::kStack) return size_stack(block, width);
    bool is_root = block->node->kind == TreeNode::Kind::kMachine;
    double inner = std::max(kMinFrameWidth, width - 2 * kPadding);
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
                     std::min<size_t>(60, node_label(decision_.machine, *block.node).size())) +
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

  // Boxes of one row get the height of the tallest.
  static void place_row(Block* block, size_t first, size_t end, double* top, double* right) {
    double x = kPadding, height = 0;
    for (size_t i = first; i < end; ++i) {
      height = std::max(height, block->children[i].rect.height);
    }
    for (size_t i = first; i < end; ++i) {
      Block& child = block->children[i];
      child.rect.x = x;
      child.rect.y = *top;
      if (child.kind == Block::Kind::kFrame) child.rect.height = height;
      x += child.rect.width + kGap;
    }
    *right = std::max(*right, x - kGap);
    *top += height + kGap;
  }

  void place_pass(const Block& block, double x, double y) {
    x += block.rect.x;
    y += block.rect.y;
    if (block.kind == Block::Kind::kColumn) return place_column(block, x, y);
    if (block.kind == Block::Kind::kFrame && block.node->kind != TreeNode::Kind::kMachine) {
      layout_.frames.push_back({block.node->kind, node_label(decision_.machine, *block.node),
                                Rect{x, y, block.rect.width, block.rect.height}});
    }
    for (const Block& child : block.children) place_pass(child, x, y);
  }

  void place_column(const Block& column, double x, double y) {
    x += kGutter;
    if (column.gpu >= 0) {
      layout_.gpus[column.gpu] = Rect{x, y, kCardWidth, gpu_height()};
      y += gpu_height();
      for (int rail : decision_.plan.gpus[static_cast<size_t>(column.gpu)].rails) {
        place_tag(column.gpu, rail, x, y);
        y += kTagHeight;
      }
      y += kGap;
    }
    for (int hca : column.hcas) {
      layout_.hcas[hca] = Rect{x, y, kCardWidth, hca_height(hca)};
      y += hca_height(hca) + kGap;
    }
  }

  void place_tag(int gpu, int rail, double x, double y) {
    for (const RailPair& pair : pairs_) {
      if (pair.gpu != static_cast<size_t>(gpu) || pair.rail != static_cast<size_t>(rail)) continue;
      layout_.tags.push_back({pair, Rect{x + 6, y + 2, kCardWidth - 12, kTagHeight - 2}});
    }
  }

  const RailDecision& decision_;
  TreeNode tree_;
  std::vector<RailPair> pairs_;
  double frame_width_ = 0;
  Layout layout_;
};

}  // namespace

TreeNode machine_tree(const Machine& machine) {
  TreeNode root;
  for (size_t i = 0; i < machine.packages.size(); ++i) {
    TreeNode package{Kind::kPackage, static_cast<int>(i), {}, {}, {}};
    add_numa_nodes(machine, static_cast<int>(i), &package);
    root.children.push_back(std::move(package));
  }
  add_numa_nodes(machine, -1, &root);
  fill_numa(machine, -1, &root);
  return root;
}

std::string node_label(const Machine& machine, const TreeNode& node) {
  switch (node.kind) {
    case Kind::kMachine:
      return machine.source;
    case Kind::kPackage:
      return fmt::format("package {}", machine.packages[node.index].id);
    case Kind::kNumaNode: {
      const NumaNode& numa = machine.numa_nodes[node.index];
      if (numa.id < 0) return "NUMA node unknown";
      std::string cpus = numa.cpus.empty() ? "" : ": CPUs " + cpu_list(numa.cpus);
      return fmt::format("NUMA node {}{}", numa.id, cpus);
    }
    case Kind::kHostBridge:
      return "host bridge " + host_bridge_text(machine, node.index);
    case Kind::kSwitch:
      return "switch " + machine.switches[node.index].bdf.to_string();
  }
  return "";
}

Layout lay_out(const RailDecision& decision, double x, double y) {
  return Layouter(decision).run(x, y);
}

Rect port_rect(const Rect& card, size_t port) {
  double y = card.y + kHeaderHeight + kHcaLines * kLineHeight + 3;
  return Rect{card.x + 6, y + static_cast<double>(port) * kPortHeight, card.width - 12,
              kPortHeight - 2};
}

}  // namespace gdr::tools::topo
