#include <fmt/format.h>

#include <algorithm>
#include <pugixml.hpp>
#include <sstream>
#include <vector>

#include "tools/inspection/labels.h"
#include "tools/topo/layout.h"
#include "tools/topo/links.h"
#include "tools/topo/render.h"
#include "tools/topo/svg_canvas.h"

namespace gdr::tools::topo {
namespace {

constexpr double kTop = 60;              // y of the boxes, below the header
constexpr double kSide = 14;             // x of the boxes
constexpr double kMinWidth = 1010;       // of the picture, for the legend below it
constexpr double kStripCharWidth = 6.3;  // of small text
constexpr size_t kMaxNameChars = 13;

constexpr char kStyle[] =
    "text{font-family:Arial,Helvetica,sans-serif;fill:#202020}"
    ".title{font-size:18px;font-weight:bold}"
    ".subtitle{font-size:13px}"
    ".name{font-size:13px;font-weight:bold}"
    ".small{font-size:12px}"
    ".strip{font-size:11px}";

struct BoxLook {
  const char* fill;
  const char* stroke;
  double radius;
};

BoxLook look_of(Layout::Box::Kind kind) {
  switch (kind) {
    case Layout::Box::Kind::kPackage:
      return {"#eef1f5", "#8793a3", 14};
    case Layout::Box::Kind::kNumaNode:
      return {"#e1e8ef", "#8793a3", 10};
    case Layout::Box::Kind::kHostBridge:
      return {"#f3f0e6", "#a89f80", 6};
    case Layout::Box::Kind::kSwitch:
      return {"#ffffff", "#5f6b7a", 4};
  }
  return {"#ffffff", "#5f6b7a", 0};
}

// Joins the texts that are not empty.
std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) {
    if (text.empty()) continue;
    all += (all.empty() ? "" : "  \u00b7  ") + text;
  }
  return all;
}

class Picture {
 public:
  explicit Picture(const RailDecision& decision)
      : decision_(decision), layout_(lay_out(decision, kSide, kTop)) {}

  std::string text() {
    pugi::xml_document document;
    pugi::xml_node svg = document.append_child("svg");
    set(svg, "xmlns", "http://www.w3.org/2000/svg");
    const double width = std::max(kMinWidth, layout_.width + 2 * kSide);
    start(svg, width);
    for (const Layout::Box& box : layout_.boxes) draw_box(svg, box);
    for (size_t i = 0; i < layout_.gpus.size(); ++i) draw_gpu(svg, i);
    for (size_t i = 0; i < layout_.hcas.size(); ++i) draw_hca(svg, i);
    pugi::xml_node lines = add_group(svg, "lines");
    for (const Layout::Line& line : layout_.lines) draw_line(lines, line);
    const double height = draw_legend(svg);
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
    const Machine& machine = decision_.machine;
    const std::string host = machine.host.empty() ? "" : "host " + machine.host;
    add_text(svg, kMargin, 28, "Rails: " + machine.source, "title",
             static_cast<size_t>((width - kMargin) / 12));
    add_text(svg, kMargin, 48, joined({host, release_text(decision_.prediction.settings())}),
             "subtitle", static_cast<size_t>((width - 2 * kMargin) / 7.6));
  }

  // Draws what lines and colours mean, and returns the y of the end.
  double draw_legend(pugi::xml_node svg) const {
    pugi::xml_node legend = add_group(svg, "legend");
    double y = layout_.bottom;
    for (const char* note :
         {"A rail's GPU and port share its colour. Solid line: GPUDirect RDMA in both directions; "
          "dashed: not in both. Grey: excluded, or no rail.",
          "nccl-gdr topo prints why ports are excluded, why pairs have no GPUDirect RDMA, and "
          "where NCCL does not follow the rails."}) {
      y += kRowHeight;
      add_text(legend, kMargin, y, note, "small");
    }
    return y + kRowHeight;
  }

  static void draw_box(pugi::xml_node svg, const Layout::Box& box) {
    const BoxLook look = look_of(box.kind);
    pugi::xml_node rect = add_rect(svg, box.rect, look.fill);
    set(rect, "rx", look.radius);
    set(rect, "stroke", look.stroke);
    add_text(svg, box.rect.x + 10, box.rect.y + 14, box.label, "small",
             static_cast<size_t>((box.rect.width - 20) / 6.8));
  }

  struct Words {
    std::string name;
    std::string note;                // beside the name
    std::vector<std::string> facts;  // those that are known
  };

  // Draws a card, with its name in its colour, as a group that is named `id`. Cards of devices
  // without a rail are grey.
  static pugi::xml_node draw_card(pugi::xml_node svg, const std::string& id, const Rect& rect,
                                  const std::string& colour, const Words& words) {
    pugi::xml_node group = add_group(svg, id);
    pugi::xml_node box = add_rect(group, rect, colour == kGrey ? "url(#hatch)" : "#ffffff");
    set(box, "stroke", colour);
    set(box, "stroke-width", 2.0);
    if (colour == kGrey) set(box, "stroke-dasharray", "6 4");
    add_rect(group, Rect{rect.x, rect.y, kNameWidth, kRowHeight}, colour);
    const std::string fill = fmt::format("fill:{}", text_colour_on(colour));
    const double y = rect.y + 14;
    set(add_text(group, rect.x + 7, y, words.name, "name", kMaxNameChars), "style", fill);
    pugi::xml_node note = add_text(group, rect.x + kNameWidth - 7, y, words.note, "strip", 16);
    set(note, "text-anchor", "end");
    set(note, "style", fill);
    add_text(group, rect.x + kNameWidth + 7, y, joined(words.facts), "strip",
             static_cast<size_t>((rect.width - kNameWidth - 14) / kStripCharWidth));
    return group;
  }

  void draw_gpu(pugi::xml_node svg, size_t index) {
    const Gpu& gpu = decision_.machine.gpus[index];
    draw_card(svg, fmt::format("gpu{}", index), layout_.gpus[index],
              gpu_colour(decision_.plan, index),
              {gpu_label(index),
               gpu_rails_text(decision_.plan, index),
               {gpu.bdf.to_string(), gpu.model, pci_link_text(gpu.link),
                gpu_links_text(decision_.machine, index)}});
  }

  void draw_hca(pugi::xml_node svg, size_t index) {
    const Hca& hca = decision_.machine.hcas[index];
    const std::string address = hca.bdf ? hca.bdf->to_string() : "no PCI function";
    pugi::xml_node card = draw_card(
        svg, fmt::format("hca{}", index), layout_.hcas[index], hca_colour(decision_, index),
        {hca.name, fmt::format("NIC{}", index), {address, pci_link_text(hca.link)}});
    for (size_t port = 0; port < hca.ports.size(); ++port) {
      draw_port(card, PortRef{static_cast<int>(index), static_cast<int>(port)});
    }
  }

  static pugi::xml_node draw_strip(pugi::xml_node parent, const Rect& strip,
                                   const std::string& fill, const std::string& words) {
    pugi::xml_node rect = add_rect(parent, strip, fill);
    add_text(parent, strip.x + 7, strip.y + 13, words, "strip");
    return rect;
  }

  void draw_port(pugi::xml_node card, const PortRef& ref) {
    const Port& port = port_of(decision_.machine, ref);
    const int rail = rail_of(decision_.plan, ref);
    const bool down = port.state == Port::State::kDown;
    const std::string colour = rail < 0 ? kGrey : rail_colour(rail);
    const std::string words =
        fmt::format("{}port {}: {}, {}", down ? "DOWN " : "", port.number,
                    port.speed_mbps > 0 ? speed_text(port.speed_mbps) : "speed ?",
                    rail < 0 ? "excluded" : fmt::format("rail {}", decision_.plan.rails[rail].id));
    const Rect strip =
        strip_of(layout_.hcas[static_cast<size_t>(ref.hca)], static_cast<size_t>(ref.port));
    const bool hatched = rail < 0 || down;
    pugi::xml_node rect = draw_strip(card, strip, hatched ? "url(#hatch)" : colour, words);
    set(rect, "stroke", down ? "#c00000" : colour);
    if (down) set(rect, "stroke-width", 2.0), set(rect, "stroke-dasharray", "3 2");
    if (!hatched) set(card.last_child(), "style", fmt::format("fill:{}", text_colour_on(colour)));
  }

  void draw_line(pugi::xml_node parent, const Layout::Line& line) {
    const std::string colour = rail_colour(line.pair.rail);
    const bool dashed = !line.pair.direct;
    pugi::xml_node rect = draw_strip(
        parent, line.tag, "#ffffff",
        fmt::format("rail {}: {}", decision_.plan.rails[line.pair.rail].id, line.pair.path));
    set(rect, "stroke", colour);
    if (dashed) set(rect, "stroke-dasharray", "4 3");
    const auto middle = [](const Rect& strip) { return strip.y + strip.height / 2; };
    add_line(parent,
             fmt::format("M {:.1f} {:.1f} H {:.1f} V {:.1f} H {:.1f}", line.tag.x + line.tag.width,
                         middle(line.tag), line.lane_x, middle(line.port),
                         line.port.x + line.port.width),
             colour, dashed);
  }

  const RailDecision& decision_;
  Layout layout_;
};

}  // namespace

std::string svg_text(const RailDecision& decision) { return Picture(decision).text(); }

}  // namespace gdr::tools::topo
