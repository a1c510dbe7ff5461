// The line of a GPU and its rail in a picture.
#pragma once

#include <string>

#include "tools/topo/layout.h"

namespace gdr::tools::topo {

struct Point {
  double x = 0;
  double y = 0;
};

// A cubic Bézier curve, in pixels.
struct Curve {
  Point from, control_from, control_to, to;

  // Returns the data of an SVG path.
  std::string path() const;
  // Returns the point at t, from 0 (`from`) to 1 (`to`).
  Point at(double t) const;
  // Whether a line along the curve, as wide as rails are drawn, touches the rectangle.
  bool touches(const Rect& rect) const;
};

// Returns the curve from the side of the tag to that of the port's strip. Where neither card is
// left of the other, it runs along their left sides. It is bent around other cards and tags where
// that makes it touch fewer of them.
Curve rail_curve(const RailDecision& decision, const Layout& layout, const Layout::Tag& tag);

}  // namespace gdr::tools::topo
