#include <fmt/format.h>

#include <algorithm>
#include <pugixml.hpp>
#include <sstream>

#include "tools/topo/labels.h"
#include "tools/topo/layout.h"
#include "tools/topo/links.h"
#include "tools/topo/picture_header.h"
#include "tools/topo/rail_curve.h"
#include "tools/topo/render.h"
#include "tools/topo/svg_canvas.h"

namespace gdr::tools::topo {
namespace {

constexpr double kTop = 78;                // y of the boxes, below the header
constexpr double kSide = 14;               // x of the boxes
constexpr double kMinWidth = 1010;         // of the picture, for the legend below it
constexpr double kCaptionCharWidth = 6.8;  // of a frame's caption, at most
constexpr size_t kMaxCardChars = 24;       // in a line on a card
constexpr size_t kMaxStripChars = 25;
constexpr size_t kMaxNameChars = 13;

constexpr char kStyle[] =
    "text{font-family:Arial,Helvetica,sans-serif;fill:#202020}"
    ".title{font-size:18px;font-weight:bold}"
    ".subtitle{font-size:13px}"
    ".frame{font-size:12px;fill:#404040;stroke:#ffffff;stroke-width:2px;paint-order:stroke}"
    ".name{font-size:13px;font-weight:bold}"
    ".small{font-size:12px}"
    ".line{font-size:11px;stroke:#ffffff;stroke-width:2px;paint-order:stroke}"
    ".strip{font-size:11px}"
    ".count{font-size:11px;font-weight:bold;stroke:#ffffff;stroke-width:3px;paint-order:stroke}";

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
  Picture(const RailDecision& decision, const std::string& date)
      : decision_(decision), layout_(lay_out(decision, kSide, kTop)), date_(date) {}

  std::string text() {
    pugi::xml_document document;
    pugi::xml_node svg = document.append_child("svg");
    set(svg, "xmlns", "http://www.w3.org/2000/svg");
    double width = std::max({kMinWidth, layout_.width + 2 * kSide, links_width(decision_)});
    start(svg, width);
    draw_boxes(svg);
    double height = draw_links(svg, decision_, kTop + layout_.height);
    height = draw_legend(svg, decision_, width, height);
    set(svg, "width", width);
    set(svg, "height", height);
    set(svg, "viewBox", fmt::format("0 0 {} {}", number_text(width), number_text(height)));
    std::ostringstream out;
    document.save(out, " ", pugi::format_indent, pugi::encoding_utf8);
    return out.str();
  }

 private:
  static pugi::xml_node add_group(pugi::xml_node parent, const std::string& id) {
    pugi::xml_node group = parent.append_child("g");
    set(group, "id", id);
    return group;
  }

  // Lines lie above all boxes and below the words, so that neither hides them nor they hide those.
  void draw_boxes(pugi::xml_node svg) {
    pugi::xml_node boxes = add_group(svg, "boxes");
    pugi::xml_node lines = add_group(svg, "lines");
    words_ = add_group(svg, "words");
    for (const Layout::Tag& tag : layout_.tags) {
      curves_.push_back(rail_curve(decision_, layout_, tag));
    }
    for (const Layout::Frame& frame : layout_.frames) draw_frame(boxes, frame);
    for (size_t i = 0; i < layout_.gpus.size(); ++i) draw_gpu(boxes, i);
    for (size_t i = 0; i < layout_.hcas.size(); ++i) draw_hca(boxes, i);
    for (const Layout::Tag& tag : layout_.tags) draw_tag(boxes, tag);
    for (size_t i = 0; i < curves_.size(); ++i) {
      const RailPair& pair = layout_.tags[i].pair;
      add_line(lines, curves_[i].path(), rail_colour(pair.rail), !pair.direct);
    }
  }

  void start(pugi::xml_node svg, double width) {
    svg.append_child("title").text().set(clean_text(decision_.machine.source).c_str());
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
    const std::vector<std::string> lines = header_lines(decision_, date_);
    add_text(svg, kMargin, 28, lines[0], "title", static_cast<size_t>((width - kMargin) / 12));
    for (size_t i = 1; i < lines.size(); ++i) {
      add_text(svg, kMargin, 30 + 18 * static_cast<double>(i), lines[i], "subtitle",
               static_cast<size_t>((width - 2 * kMargin) / 7.6));
    }
  }

  void draw_frame(pugi::xml_node parent, const Layout::Frame& frame) {
    FrameLook look = look_of(frame.kind);
    pugi::xml_node rect = add_rect(parent, frame.rect, look.fill);
    set(rect, "rx", look.radius);
    set(rect, "stroke", look.stroke);
    size_t fitting = static_cast<size_t>(frame.rect.width / kCaptionCharWidth);
    add_text(words_, caption_x(frame), frame.rect.y + 14, frame.label, "frame", fitting);
  }

  // Returns where the caption of a frame begins: at its left end or, where lines pass, as near to
  // that as they let it.
  double caption_x(const Layout::Frame& frame) const {
    const double width = kCaptionCharWidth * static_cast<double>(frame.label.size());
    const double first = frame.rect.x + 10;
    for (double x = first; x + width < frame.rect.x + frame.rect.width; x += 6) {
      const Rect caption{x, frame.rect.y + 4, width, 13};
      const bool is_free = std::none_of(curves_.begin(), curves_.end(),
                                        [&](const Curve& curve) { return curve.touches(caption); });
      if (is_free) return x;
    }
    return first;
  }

  // The group of the words on a card.
  struct Card {
    pugi::xml_node words;
    Rect rect;
    std::string colour;
  };

  // Draws a card in its colour, with a group for its boxes, named `id`, and one for its words.
  Card draw_card(pugi::xml_node parent, const Rect& rect, const std::string& colour, bool has_rail,
                 const std::string& id) {
    pugi::xml_node group = add_group(parent, id);
    pugi::xml_node box = add_rect(group, rect, has_rail ? "#ffffff" : "url(#hatch)");
    set(box, "stroke", colour);
    set(box, "stroke-width", 2.0);
    if (!has_rail) set(box, "stroke-dasharray", "6 4");
    add_rect(group, Rect{rect.x, rect.y, rect.width, kHeaderHeight}, colour);
    return Card{add_group(words_, id + "-words"), rect, colour};
  }

  // Writes the name at the left end of the card's header and a note at its right end.
  static void write_header(const Card& card, const std::string& name, const std::string& note) {
    const std::string fill = fmt::format("fill:{}", text_colour_on(card.colour));
    const double y = card.rect.y + 15;
    set(add_text(card.words, card.rect.x + 7, y, name, "name", kMaxNameChars), "style", fill);
    pugi::xml_node text =
        add_text(card.words, card.rect.x + card.rect.width - 7, y, note, "strip", 16);
    set(text, "text-anchor", "end");
    set(text, "style", fill);
  }

  static void write_lines(const Card& card, const std::vector<std::string>& lines) {
    double y = card.rect.y + kHeaderHeight + 12;
    for (const std::string& line : lines) {
      if (line.empty()) continue;
      add_text(card.words, card.rect.x + 7, y, line, "line", kMaxCardChars);
      y += kLineHeight;
    }
  }

  void draw_gpu(pugi::xml_node parent, size_t index) {
    const Gpu& gpu = decision_.machine.gpus[index];
    Card card = draw_card(parent, layout_.gpus[index], gpu_colour(decision_.plan, index),
                          !decision_.plan.gpus[index].rails.empty(), fmt::format("gpu{}", index));
    write_header(card, gpu_label(index), gpu_rails_text(decision_.plan, index));
    write_lines(card, {gpu.bdf.to_string(), gpu.model, pci_link_text(gpu.link),
                       gpu_links_text(decision_.machine, index)});
  }

  void draw_hca(pugi::xml_node parent, size_t index) {
    const Hca& hca = decision_.machine.hcas[index];
    const std::string colour = hca_colour(decision_, index);
    Card card = draw_card(parent, layout_.hcas[index], colour, colour != kGrey,
                          fmt::format("hca{}", index));
    write_header(card, hca.name, fmt::format("NIC{}", index));
    std::string address = hca.bdf ? hca.bdf->to_string() : "no PCI function";
    write_lines(card, {address, pci_link_text(hca.link)});
    for (size_t port = 0; port < hca.ports.size(); ++port) draw_port(parent, card, index, port);
  }

  void draw_port(pugi::xml_node parent, const Card& card, size_t index, size_t number) {
    const Port& port = decision_.machine.hcas[index].ports[number];
    Rect strip = port_rect(card.rect, number);
    int rail = rail_of(decision_.plan, PortRef{static_cast<int>(index), static_cast<int>(number)});
    bool down = port.state == Port::State::kDown;
    std::string colour = rail < 0 ? kGrey : rail_colour(rail);
    pugi::xml_node rect = add_rect(parent, strip, rail < 0 || down ? "url(#hatch)" : colour);
    set(rect, "stroke", down ? "#c00000" : colour);
    if (down) set(rect, "stroke-width", 2.0), set(rect, "stroke-dasharray", "3 2");
    std::string words = fmt::format("{}: {}", port.number,
                                    port.speed_mbps > 0 ? speed_text(port.speed_mbps) : "speed ?");
    words += rail < 0 ? ", excluded" : fmt::format(", rail {}", decision_.plan.rails[rail].id);
    if (down) words = "DOWN " + words;
    pugi::xml_node text =
        add_text(card.words, strip.x + 5, strip.y + 11.5, words, "strip", kMaxStripChars);
    if (rail >= 0 && !down) set(text, "style", fmt::format("fill:{}", text_colour_on(colour)));
  }

  void draw_tag(pugi::xml_node parent, const Layout::Tag& tag) {
    pugi::xml_node rect = add_rect(parent, tag.rect, "#ffffff");
    set(rect, "stroke", rail_colour(tag.pair.rail));
    set(rect, "stroke-width", 1.5);
    set(rect, "rx", 7.0);
    if (!tag.pair.direct) set(rect, "stroke-dasharray", "4 3");
    add_text(words_, tag.rect.x + 7, tag.rect.y + 11.5, pair_text(decision_, tag.pair), "line",
             kMaxStripChars);
  }

  const RailDecision& decision_;
  Layout layout_;
  std::vector<Curve> curves_;  // parallel to Layout::tags
  std::string date_;
  pugi::xml_node words_;  // the group of all words on boxes
};

}  // namespace

std::string svg_text(const RailDecision& decision, const std::string& date) {
  return Picture(decision, date).text();
}

}  // namespace gdr::tools::topo
