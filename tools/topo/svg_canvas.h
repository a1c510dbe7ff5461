// Elements of SVG (Scalable Vector Graphics 1.1). Text that goes in is cleaned and escaped here.
#pragma once

#include <pugixml.hpp>
#include <string>

#include "tools/topo/layout.h"

namespace gdr::tools::topo {

// Sets an attribute; numbers are written with one decimal.
void set(pugi::xml_node node, const char* name, const std::string& value);
void set(pugi::xml_node node, const char* name, double value);

pugi::xml_node add_rect(pugi::xml_node parent, const Rect& rect, const std::string& fill);

// Adds text whose baseline starts at (x, y). Text of more than max_chars characters is cut, and is
// whole in a tooltip. style_class names a class of the picture's style sheet.
pugi::xml_node add_text(pugi::xml_node parent, double x, double y, const std::string& text,
                        const char* style_class, size_t max_chars = 1000);

// Adds a line of one colour. `path` is the value of a <path>'s d attribute: "M 0 0 h 40".
pugi::xml_node add_path(pugi::xml_node parent, const std::string& path, const std::string& colour,
                        double width);

// Adds a line in a rail's colour, with a dark edge so that light colours show on white.
void add_line(pugi::xml_node parent, const std::string& path, const std::string& colour,
              bool dashed);

// Returns the number with one decimal, whatever the locale.
std::string number_text(double number);

inline constexpr double kMargin = 24;

}  // namespace gdr::tools::topo
