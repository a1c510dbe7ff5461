// The parts of the picture that svg_text() of render.h puts below the boxes.
#pragma once

#include <pugixml.hpp>

#include "tools/topo/labels.h"

namespace gdr::tools::topo {

inline constexpr double kMargin = 24;
inline constexpr double kRowHeight = 19;

// Returns how wide a picture has to be for draw_links().
double links_width(const RailDecision& decision);

// Draws the GPUs in rows with their NVLinks and NVLink-C2C from y down, no wider than `width` but
// for links between GPUs, which need all GPUs in one row; returns the y of its end. Draws nothing
// where GPUs have no such links.
double draw_links(pugi::xml_node svg, const RailDecision& decision, double width, double y);

// Draws the table of rails and excluded ports from y down, in as many columns as fit into the
// width; returns the y of its end.
double draw_table(pugi::xml_node svg, const RailDecision& decision, double width, double y);

}  // namespace gdr::tools::topo
