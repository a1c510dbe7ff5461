// The machine as a picture: packages, switches, devices; each rail has a colour that its GPU and
// its HCA share.
#pragma once

#include <string>

#include "tools/topo/view.h"

namespace gdr::topology {

std::string svg_text(const View& view);
std::string dot_text(const View& view);  // for Graphviz

}  // namespace gdr::topology
