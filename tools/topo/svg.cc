#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <pugixml.hpp>
#include <sstream>

#include "tools/topo/colours.h"
#include "tools/topo/labels.h"
#include "tools/topo/layout.h"
#include "tools/topo/pairs.h"
#include "tools/topo/picture.h"
#include "tools/topo/svg_canvas.h"
#include "tools/topo/svg_legend.h"

namespace gdr::topology {
namespace {

constexpr double kTop = 56;   // below the title
constexpr double kSide = 14;  // left of the boxes
constexpr double kLeastWidth = 1010;
constexpr size_t kCardChars = 25;

constexpr char kStyle[] =
    "text{font-family:sans-serif;fill:#202020}"
    ".title{font-size:20px;font-weight:bold}"
    ".frame{font-size:12px;fill:#404040}"
    ".name{font-size:13px;font-weight:bold}"
    ".small{font-size:12px}"
    ".line{font-size:11px}"
    ".strip{font-size:11px}";

struct FrameLook {
  const char* fill;
  const char* stroke;
  double radius;
};

FrameLook look_of(TreeNode::Kind kind) {
  switch (kind) {
    case TreeNode::Kind::kMachine:
      break;
    case TreeNode::Kind::kPackage:
      return {"#eef1f5", "#8793a3", 14};
    case TreeNode::Kind::kNumaNode:
      return {"#e1e8ef", "#8793a3", 10};
    case TreeNode::Kind::kHostBridge:
      return {"#f3f0e6", "#a89f80", 6};
    case TreeNode::Kind::kSwitch:
      return {"#ffffff", "#5f6b7a", 4};
  }
  return {"#ffffff", "#5f6b7a", 0};
}

class Picture {
 public:
  explicit Picture(const RailDecision& view) : view_(view), layout_(lay_out(view)) {}

  std::string text() {
    pugi::xml_document document;
    pugi::xml_node svg = document.append_child("svg");
    set(svg, "xmlns", "http://www.w3.org/2000/svg");
    double width = std::max(kLeastWidth, layout_.width + 2 * kSide);
    start(svg, width);
    pugi::xml_node boxes = svg.append_child("g");
    set(boxes, "transform", fmt::format("translate({} {})", kSide, kTop));
    for (const Layout::Frame& frame : layout_.frames) draw_frame(boxes, frame);
    for (const RailPair& pair : rail_pairs(view_)) draw_pair(boxes, pair);
    for (size_t i = 0; i < layout_.gpus.size(); ++i) draw_gpu(boxes, i);
    for (size_t i = 0; i < layout_.hcas.size(); ++i) draw_hca(boxes, i);
    double height = draw_legend(svg, view_, width, kTop + layout_.height);
    set(svg, "width", width);
    set(svg, "height", height);
    set(svg, "viewBox", fmt::format("0 0 {} {}", number_text(width), number_text(height)));
    std::ostringstream out;
    document.save(out, " ", pugi::format_indent, pugi::encoding_utf8);
    return out.str();
  }

 private:
  void start(pugi::xml_node svg, double width) {
    svg.append_child("title").text().set(clean_text(view_.machine.source).c_str());
    svg.append_child("style").text().set(kStyle);
    pugi::xml_node hatch = svg.append_child("defs").append_child("pattern");
    set(hatch, "id", "hatch");
    set(hatch, "patternUnits", "userSpaceOnUse");
    set(hatch, "width", 8.0);
    set(hatch, "height", 8.0);
    add_rect(hatch, Rect{0, 0, 8, 8}, "#ececec");
    pugi::xml_node stroke = hatch.append_child("path");
    set(stroke, "d", "M -2 2 L 2 -2 M 0 8 L 8 0 M 6 10 L 10 6");
    set(stroke, "stroke", "#c4c4c4");
    set(stroke, "stroke-width", 1.5);
    pugi::xml_node paper = svg.append_child("rect");
    set(paper, "width", "100%");
    set(paper, "height", "100%");
    set(paper, "fill", "#ffffff");
    size_t fitting = static_cast<size_t>(width / 12);
    add_text(svg, kSide + 10, 34, "Rails: " + view_.machine.source, "title", fitting);
  }

  void draw_frame(pugi::xml_node parent, const Layout::Frame& frame) {
    FrameLook look = look_of(frame.kind);
    pugi::xml_node rect = add_rect(parent, frame.rect, look.fill);
    set(rect, "rx", look.radius);
    set(rect, "stroke", look.stroke);
    size_t fitting = static_cast<size_t>(frame.rect.width / 6.6);
    add_text(parent, frame.rect.x + 10, frame.rect.y + 14, frame.label, "frame", fitting);
  }

  // A card in its colour; the group to add lines of text to.
  pugi::xml_node draw_card(pugi::xml_node parent, const Rect& card, const std::string& colour,
                           bool has_rail, const std::string& name) {
    pugi::xml_node rect = add_rect(parent, card, has_rail ? "#ffffff" : "url(#hatch)");
    set(rect, "stroke", colour);
    set(rect, "stroke-width", 2.0);
    if (!has_rail) set(rect, "stroke-dasharray", "6 4");
    add_rect(parent, Rect{card.x, card.y, card.width, kHeaderHeight}, colour);
    pugi::xml_node text = add_text(parent, card.x + 7, card.y + 15, name, "name", 14);
    set(text, "style", fmt::format("fill:{}", text_colour_on(colour)));
    return parent;
  }

  void draw_remark(pugi::xml_node parent, const Rect& card, const std::string& colour,
                   const std::string& remark) {
    pugi::xml_node text =
        add_text(parent, card.x + card.width - 7, card.y + 15, remark, "strip", 16);
    set(text, "text-anchor", "end");
    set(text, "style", fmt::format("fill:{}", text_colour_on(colour)));
  }

  void draw_lines(pugi::xml_node parent, const Rect& card, const std::vector<std::string>& lines) {
    double y = card.y + kHeaderHeight + 12;
    for (const std::string& line : lines) {
      if (line.empty()) continue;
      add_text(parent, card.x + 7, y, line, "line", kCardChars);
      y += kLineHeight;
    }
  }

  void draw_gpu(pugi::xml_node parent, size_t index) {
    const Gpu& gpu = view_.machine.gpus[index];
    const Rect& card = layout_.gpus[index];
    std::string colour = gpu_colour(view_.plan, index);
    pugi::xml_node group = parent.append_child("g");
    set(group, "id", fmt::format("gpu{}", index));
    draw_card(group, card, colour, !view_.plan.gpus[index].rails.empty(),
              fmt::format("GPU{}", index));
    draw_remark(group, card, colour, gpu_rails_text(view_.plan, index));
    draw_lines(group, card, {gpu.bdf.to_string(), gpu.model, pci_link_text(gpu.link)});
  }

  void draw_hca(pugi::xml_node parent, size_t index) {
    const Hca& hca = view_.machine.hcas[index];
    const Rect& card = layout_.hcas[index];
    std::string colour = hca_colour(view_, index);
    pugi::xml_node group = parent.append_child("g");
    set(group, "id", fmt::format("hca{}", index));
    draw_card(group, card, colour, colour != kGrey, hca.name);
    draw_remark(group, card, colour, fmt::format("NIC{}", index));
    std::string address = hca.bdf ? hca.bdf->to_string() : "on no PCI function";
    draw_lines(group, card, {address, pci_link_text(hca.link)});
    for (size_t port = 0; port < hca.ports.size(); ++port) draw_port(group, index, port);
  }

  void draw_port(pugi::xml_node parent, size_t index, size_t number) {
    const Port& port = view_.machine.hcas[index].ports[number];
    Rect strip = port_rect(layout_.hcas[index], number);
    int rail = rail_of(view_.plan, PortRef{static_cast<int>(index), static_cast<int>(number)});
    bool down = port.state == Port::State::kDown;
    std::string colour = rail < 0 ? kGrey : rail_colour(rail);
    pugi::xml_node rect = add_rect(parent, strip, rail < 0 || down ? "url(#hatch)" : colour);
    set(rect, "stroke", down ? "#c00000" : colour);
    if (down) set(rect, "stroke-width", 2.0), set(rect, "stroke-dasharray", "3 2");
    std::string words = fmt::format("{}: {}", port.number,
                                    port.speed_mbps > 0 ? speed_text(port.speed_mbps) : "speed ?");
    words += rail < 0 ? ", no rail" : fmt::format(", rail {}", view_.plan.rails[rail].id);
    if (down) words = "DOWN " + words;
    pugi::xml_node text = add_text(parent, strip.x + 5, strip.y + 11.5, words, "strip", kCardChars);
    if (rail >= 0 && !down) set(text, "style", fmt::format("fill:{}", text_colour_on(colour)));
  }

  // From the GPU's side to the port's: where one is not left or right of the other, along the left.
  void draw_pair(pugi::xml_node parent, const RailPair& pair) {
    PortRef port = view_.plan.rails[pair.rail].port;
    const Rect& gpu = layout_.gpus[pair.gpu];
    const Rect& hca = layout_.hcas[port.hca];
    Rect strip = port_rect(hca, port.port);
    bool is_right = hca.x > gpu.x + gpu.width;
    bool is_left = hca.x + hca.width < gpu.x;
    // The lines of one GPU must not cover each other: a later rail starts higher and swings out
    // more.
    const std::vector<int>& rails = view_.plan.gpus[pair.gpu].rails;
    double rank = static_cast<double>(
        std::find(rails.begin(), rails.end(), static_cast<int>(pair.rail)) - rails.begin());
    double count = static_cast<double>(rails.size());
    double from_x = is_right ? gpu.x + gpu.width : gpu.x;
    double from_y = gpu.y + gpu.height * (count - rank) / (count + 1);
    double to_x = is_left ? hca.x + hca.width : hca.x;
    double to_y = strip.y + strip.height / 2;
    double beside = std::max(20.0, std::abs(to_x - from_x) / 2);
    double out = is_right ? beside : is_left ? -beside : -8 - 12 * (rank + 1) / count;
    double in = is_right || is_left ? -out : out;
    std::string path =
        fmt::format("M {:.1f} {:.1f} C {:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}", from_x, from_y,
                    from_x + out, from_y, to_x + in, to_y, to_x, to_y);
    add_line(parent, path, rail_colour(pair.rail), !pair.direct);
  }

  const RailDecision& view_;
  Layout layout_;
};

}  // namespace

std::string svg_text(const RailDecision& view) { return Picture(view).text(); }

}  // namespace gdr::topology
