#include "tools/topo/svg_canvas.h"

#include <fmt/format.h>

#include "tools/inspection/labels.h"

namespace gdr::tools::topo {
namespace {

// Returns the first `count` characters of UTF-8 text.
std::string first_characters(const std::string& text, size_t count) {
  size_t end = 0;
  for (; end < text.size(); ++end) {
    if ((text[end] & 0xc0) != 0x80 && count-- == 0) break;
  }
  return text.substr(0, end);
}

}  // namespace

std::string number_text(double number) { return fmt::format("{:.1f}", number); }

void set(pugi::xml_node node, const char* name, const std::string& value) {
  node.append_attribute(name).set_value(clean_text(value).c_str());
}

void set(pugi::xml_node node, const char* name, double value) {
  set(node, name, number_text(value));
}

pugi::xml_node add_rect(pugi::xml_node parent, const Rect& rect, const std::string& fill) {
  pugi::xml_node node = parent.append_child("rect");
  set(node, "x", rect.x);
  set(node, "y", rect.y);
  set(node, "width", rect.width);
  set(node, "height", rect.height);
  set(node, "fill", fill);
  return node;
}

pugi::xml_node add_text(pugi::xml_node parent, double x, double y, const std::string& text,
                        const char* style_class, size_t max_chars) {
  pugi::xml_node node = parent.append_child("text");
  set(node, "x", x);
  set(node, "y", y);
  set(node, "class", style_class);
  std::string clean = clean_text(text);
  std::string shown = first_characters(clean, max_chars);
  if (shown.size() < clean.size()) {
    node.append_child("title").text().set(clean.c_str());
    shown = first_characters(clean, max_chars - 1) + "\u2026";
  }
  node.append_child(pugi::node_pcdata).set_value(shown.c_str());
  return node;
}

pugi::xml_node add_path(pugi::xml_node parent, const std::string& path, const std::string& colour,
                        double width) {
  pugi::xml_node node = parent.append_child("path");
  set(node, "d", path);
  set(node, "fill", "none");
  set(node, "stroke", colour);
  set(node, "stroke-width", width);
  return node;
}

void add_line(pugi::xml_node parent, const std::string& path, const std::string& colour,
              bool dashed) {
  pugi::xml_node edge = add_path(parent, path, "#303030", 4.5);
  pugi::xml_node line = add_path(parent, path, colour, 3);
  if (!dashed) return;
  set(edge, "stroke-dasharray", "7 5");
  set(line, "stroke-dasharray", "7 5");
}

}  // namespace gdr::tools::topo
