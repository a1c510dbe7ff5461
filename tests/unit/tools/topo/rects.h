// Rectangles of a picture.
#pragma once

#include "tools/topo/layout.h"

namespace gdr::tools::topo {

inline bool overlap(const Rect& a, const Rect& b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

}  // namespace gdr::tools::topo
