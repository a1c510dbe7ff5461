// The table below the picture: rails, their GPUs and HCAs, and what is no rail.
#pragma once

#include <pugixml.hpp>

#include "topology/live/rail_decision.h"

namespace gdr::topology {

// Draws it from y down, in as many columns as fit, and gives the y of its end.
double draw_legend(pugi::xml_node svg, const RailDecision& view, double width, double y);

}  // namespace gdr::topology
