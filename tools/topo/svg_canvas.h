// Elements of SVG. What goes in is escaped and cleaned here.
#pragma once

#include <pugixml.hpp>
#include <string>

#include "tools/topo/layout.h"

namespace gdr::topology {

// Sets an attribute; numbers with one decimal.
void set(pugi::xml_node node, const char* name, const std::string& value);
void set(pugi::xml_node node, const char* name, double value);

pugi::xml_node add_rect(pugi::xml_node parent, const Rect& rect, const std::string& fill);

// The left end of the baseline. Longer text is cut at max_chars and goes into a tooltip.
pugi::xml_node add_text(pugi::xml_node parent, double x, double y, const std::string& text,
                        const char* style_class, size_t max_chars = 1000);

// A line in a rail's colour, with a dark edge so that light colours show too.
void add_line(pugi::xml_node parent, const std::string& path, const std::string& colour,
              bool dashed);

std::string number_text(double number);

}  // namespace gdr::topology
