// The machine as a tree of boxes, and where the boxes lie in a picture.
#pragma once

#include <string>
#include <vector>

#include "tools/topo/labels.h"

namespace gdr::tools::topo {

// A box of the picture with what is directly in it. Packages, NUMA nodes, host bridges and switches
// nest in that order; levels that the machine does not know are left out.
struct TreeNode {
  enum class Kind { kMachine, kPackage, kNumaNode, kHostBridge, kSwitch };
  Kind kind = Kind::kMachine;
  int index = -1;  // in the Machine's list of this kind; -1 for the machine
  std::vector<TreeNode> children;
  std::vector<int> gpus;  // indexes in Machine::gpus
  std::vector<int> hcas;  // indexes in Machine::hcas
};

// Returns the tree, in which every GPU and every HCA stands exactly once.
TreeNode machine_tree(const Machine& machine);

// Returns the caption of a box: "package 0", "NUMA node 1: CPUs 0-47", "switch 0000:17:00.0", ...
std::string node_label(const Machine& machine, const TreeNode& node);

// In pixels; y grows downwards.
struct Rect {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

struct Layout {
  struct Frame {  // a box
    TreeNode::Kind kind;
    std::string label;
    Rect rect;
  };
  // The words on the line of a GPU and a rail: a strip below the GPU's card, at which the line
  // begins.
  struct Tag {
    RailPair pair;
    Rect rect;
  };
  double width = 0;
  double height = 0;
  std::vector<Frame> frames;  // outer ones first
  std::vector<Rect> gpus;     // cards, parallel to Machine::gpus
  std::vector<Rect> hcas;     // cards, parallel to Machine::hcas
  std::vector<Tag> tags;      // one for each of rail_pairs()
};

inline constexpr double kHeaderHeight = 20;  // of a card
inline constexpr double kLineHeight = 15;
inline constexpr double kPortHeight = 17;
inline constexpr double kLabelHeight = 20;  // of a frame

// Lays out the cards so that none overlap: an HCA in the same box as the first GPU that uses it
// lies below that GPU, the others lie beside the GPUs. (x, y) is the upper left corner.
Layout lay_out(const RailDecision& decision, double x = 0, double y = 0);

// Returns the strip of one port (an index in Hca::ports) on its HCA's card.
Rect port_rect(const Rect& card, size_t port);

}  // namespace gdr::tools::topo
