// The machine as a picture: packages, switches, devices; each rail has a colour that its GPU and
// its HCA share.
#pragma once

#include <string>

#include "topology/live/rail_decision.h"

namespace gdr::topology {

std::string svg_text(const RailDecision& view);
std::string dot_text(const RailDecision& view);  // for Graphviz

}  // namespace gdr::topology
