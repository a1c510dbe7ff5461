// Where things lie in the picture, in pixels.
#pragma once

#include <vector>

#include "tools/topo/tree.h"
#include "topology/live/rail_decision.h"

namespace gdr::topology {

struct Rect {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

struct Layout {
  struct Frame {
    TreeNode::Kind kind;
    std::string label;
    Rect rect;
  };
  double width = 0;
  double height = 0;
  std::vector<Frame> frames;  // outer ones first
  std::vector<Rect> gpus;     // cards, parallel to Machine::gpus
  std::vector<Rect> hcas;     // cards, parallel to Machine::hcas
};

inline constexpr double kHeaderHeight = 20;  // of a card
inline constexpr double kLineHeight = 15;
inline constexpr double kPortHeight = 17;
inline constexpr double kLabelHeight = 20;  // of a frame

// An HCA whose first GPU is in the same box lies below it; the others beside them.
Layout lay_out(const RailDecision& view);

// The strip of one port on its HCA's card.
Rect port_rect(const Rect& card, size_t port);

}  // namespace gdr::topology
