// Where the machine's boxes, cards and lines lie in a picture: all below each other, so that the
// space to their right is free for the lines.
#pragma once

#include <string>
#include <vector>

#include "tools/inspection/labels.h"

namespace gdr::tools::topo {

// In pixels; y grows downwards.
struct Rect {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

struct Layout {
  // Packages, NUMA nodes, host bridges and switches nest in that order; levels that the machine
  // does not know are left out.
  struct Box {
    enum class Kind { kPackage, kNumaNode, kHostBridge, kSwitch };
    Kind kind;
    std::string label;
    Rect rect;
  };
  // The line of a GPU and a rail: from a strip of the GPU's card, which has its words, by a lane
  // beside the boxes to the strip of the rail's port.
  struct Line {
    RailPair pair;
    Rect tag, port;
    double lane_x;
  };
  double width = 0;         // without the space around everything
  double bottom = 0;        // the y of the end
  std::vector<Box> boxes;   // outer ones first
  std::vector<Rect> gpus;   // cards, parallel to Machine::gpus
  std::vector<Rect> hcas;   // cards, parallel to Machine::hcas
  std::vector<Line> lines;  // one for each of rail_pairs()
};

inline constexpr double kRowHeight = 19;   // of a line of text
inline constexpr double kNameWidth = 220;  // of a card's left part, with its name

// Lays out the machine from (x, y) on. An HCA in the same box as the first GPU that uses it lies
// below that GPU.
Layout lay_out(const RailDecision& decision, double x = 0, double y = 0);

// Returns the strip of a row of a card, counted from 0 below its first row: of a port on the card
// of an HCA, of a rail on that of a GPU.
Rect strip_of(const Rect& card, size_t row);

}  // namespace gdr::tools::topo
