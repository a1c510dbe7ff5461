#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <pugixml.hpp>
#include <sstream>

#include "tools/topo/labels.h"
#include "tools/topo/layout.h"
#include "tools/topo/render.h"
#include "tools/topo/svg_canvas.h"

namespace gdr::tools::topo {
namespace {

constexpr double kVerdictAt = 350;  // x of a row's last field, from the row's start
constexpr size_t kMaxChars = 90;    // of the last field; longer text is cut
constexpr double kCharWidth = 6.8;
constexpr double kRowHeight = 19;
constexpr double kMargin = 24;

struct Row {
  std::string colour;
  bool dashed = false;
  bool rail = true;  // false: an excluded port, shown by a hatched chip
  std::string name, gpu, port, path, verdict;
};

std::vector<Row> rows_of(const RailDecision& decision) {
  const RailPlan& plan = decision.plan;
  std::vector<RailPair> pairs = rail_pairs(decision);
  std::vector<Row> rows;
  auto pair = pairs.begin();
  for (size_t i = 0; i < plan.rails.size(); ++i) {
    const Rail& rail = plan.rails[i];
    Row row{rail_colour(i),
            true,
            true,
            fmt::format("rail {}", rail.id),
            "-",
            "",
            "-",
            rail.usable ? "no GPU uses it" : rail.why_not};
    row.port = port_label(decision.machine, rail.port);
    if (pair == pairs.end() || pair->rail != i) rows.push_back(row);
    for (; pair != pairs.end() && pair->rail == i; ++pair) {
      row.gpu = fmt::format("GPU{}", pair->gpu);
      row.path = pair->path;
      row.dashed = !pair->direct;
      row.verdict = pair->verdict;
      rows.push_back(row);
    }
  }
  for (const ExcludedPort& one : plan.excluded) {
    rows.push_back(Row{kGrey, false, false, "excluded", "-", port_label(decision.machine, one.port),
                       "-", one.reason});
  }
  return rows;
}

double column_width(const std::vector<Row>& rows) {
  size_t longest = 0;
  for (const Row& row : rows) longest = std::max(longest, row.verdict.size());
  return kVerdictAt + kMargin + kCharWidth * static_cast<double>(std::min(longest, kMaxChars));
}

void draw_row(pugi::xml_node legend, const Row& row, double x, double y) {
  if (row.rail) {
    std::string from = fmt::format("M {} {}", number_text(x), number_text(y - 4));
    add_line(legend, fmt::format("{} h 40", from), row.colour, row.dashed);
  } else {
    set(add_rect(legend, Rect{x, y - 10, 40, 11}, "url(#hatch)"), "stroke", kGrey);
  }
  add_text(legend, x + 52, y, row.name, "small", 10);
  add_text(legend, x + 118, y, row.gpu, "small", 8);
  add_text(legend, x + 170, y, row.port, "small", 22);
  add_text(legend, x + 304, y, row.path, "small", 6);
  add_text(legend, x + kVerdictAt, y, row.verdict, "small", kMaxChars);
}

// Draws the table from y down, in as many columns as fit into the width; returns the y of its end.
double draw_legend(pugi::xml_node svg, const RailDecision& decision, double width, double y) {
  pugi::xml_node legend = svg.append_child("g");
  set(legend, "id", "legend");
  std::vector<Row> rows = rows_of(decision);
  double step = column_width(rows);
  size_t columns = std::max<size_t>(1, static_cast<size_t>((width - kMargin) / step));
  size_t per_column = (rows.size() + columns - 1) / columns;
  add_text(legend, kMargin, y + kRowHeight,
           "A rail's GPU and port share its colour. Solid line: GPUDirect RDMA in both directions. "
           "Dashed: not in both. Grey: excluded, or no rail.",
           "small");
  double top = y + 2.4 * kRowHeight;
  for (size_t i = 0; i < rows.size(); ++i) {
    size_t column = i / per_column;
    size_t line = i % per_column;
    draw_row(legend, rows[i], kMargin + static_cast<double>(column) * step,
             top + static_cast<double>(line) * kRowHeight);
  }
  return top + static_cast<double>(per_column) * kRowHeight;
}

constexpr double kTop = 56;           // y of the boxes, below the title
constexpr double kSide = 14;          // x of the boxes
constexpr double kMinWidth = 1010;    // of the picture, for the table below it
constexpr size_t kMaxCardChars = 25;  // in a line on a card

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
  explicit Picture(const RailDecision& decision)
      : decision_(decision), layout_(lay_out(decision)) {}

  std::string text() {
    pugi::xml_document document;
    pugi::xml_node svg = document.append_child("svg");
    set(svg, "xmlns", "http://www.w3.org/2000/svg");
    double width = std::max(kMinWidth, layout_.width + 2 * kSide);
    start(svg, width);
    pugi::xml_node boxes = svg.append_child("g");
    set(boxes, "transform", fmt::format("translate({} {})", kSide, kTop));
    for (const Layout::Frame& frame : layout_.frames) draw_frame(boxes, frame);
    for (const RailPair& pair : rail_pairs(decision_)) draw_pair(boxes, pair);
    for (size_t i = 0; i < layout_.gpus.size(); ++i) draw_gpu(boxes, i);
    for (size_t i = 0; i < layout_.hcas.size(); ++i) draw_hca(boxes, i);
    double height = draw_legend(svg, decision_, width, kTop + layout_.height);
    set(svg, "width", width);
    set(svg, "height", height);
    set(svg, "viewBox", fmt::format("0 0 {} {}", number_text(width), number_text(height)));
    std::ostringstream out;
    document.save(out, " ", pugi::format_indent, pugi::encoding_utf8);
    return out.str();
  }

 private:
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
    size_t fitting = static_cast<size_t>(width / 12);
    add_text(svg, kSide + 10, 34, "Rails: " + decision_.machine.source, "title", fitting);
  }

  void draw_frame(pugi::xml_node parent, const Layout::Frame& frame) {
    FrameLook look = look_of(frame.kind);
    pugi::xml_node rect = add_rect(parent, frame.rect, look.fill);
    set(rect, "rx", look.radius);
    set(rect, "stroke", look.stroke);
    size_t fitting = static_cast<size_t>(frame.rect.width / 6.6);
    add_text(parent, frame.rect.x + 10, frame.rect.y + 14, frame.label, "frame", fitting);
  }

  // Draws a card in its colour and returns the group that lines of text are added to.
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

  // Writes at the right end of the card's header.
  void draw_header_note(pugi::xml_node parent, const Rect& card, const std::string& colour,
                        const std::string& note) {
    pugi::xml_node text = add_text(parent, card.x + card.width - 7, card.y + 15, note, "strip", 16);
    set(text, "text-anchor", "end");
    set(text, "style", fmt::format("fill:{}", text_colour_on(colour)));
  }

  void draw_lines(pugi::xml_node parent, const Rect& card, const std::vector<std::string>& lines) {
    double y = card.y + kHeaderHeight + 12;
    for (const std::string& line : lines) {
      if (line.empty()) continue;
      add_text(parent, card.x + 7, y, line, "line", kMaxCardChars);
      y += kLineHeight;
    }
  }

  void draw_gpu(pugi::xml_node parent, size_t index) {
    const Gpu& gpu = decision_.machine.gpus[index];
    const Rect& card = layout_.gpus[index];
    std::string colour = gpu_colour(decision_.plan, index);
    pugi::xml_node group = parent.append_child("g");
    set(group, "id", fmt::format("gpu{}", index));
    draw_card(group, card, colour, !decision_.plan.gpus[index].rails.empty(),
              fmt::format("GPU{}", index));
    draw_header_note(group, card, colour, gpu_rails_text(decision_.plan, index));
    draw_lines(group, card, {gpu.bdf.to_string(), gpu.model, pci_link_text(gpu.link)});
  }

  void draw_hca(pugi::xml_node parent, size_t index) {
    const Hca& hca = decision_.machine.hcas[index];
    const Rect& card = layout_.hcas[index];
    std::string colour = hca_colour(decision_, index);
    pugi::xml_node group = parent.append_child("g");
    set(group, "id", fmt::format("hca{}", index));
    draw_card(group, card, colour, colour != kGrey, hca.name);
    draw_header_note(group, card, colour, fmt::format("NIC{}", index));
    std::string address = hca.bdf ? hca.bdf->to_string() : "no PCI function";
    draw_lines(group, card, {address, pci_link_text(hca.link)});
    for (size_t port = 0; port < hca.ports.size(); ++port) draw_port(group, index, port);
  }

  void draw_port(pugi::xml_node parent, size_t index, size_t number) {
    const Port& port = decision_.machine.hcas[index].ports[number];
    Rect strip = port_rect(layout_.hcas[index], number);
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
        add_text(parent, strip.x + 5, strip.y + 11.5, words, "strip", kMaxCardChars);
    if (rail >= 0 && !down) set(text, "style", fmt::format("fill:{}", text_colour_on(colour)));
  }

  // Draws a line from the GPU's side to the port's. Where neither card is left of the other, the
  // line runs along their left sides.
  void draw_pair(pugi::xml_node parent, const RailPair& pair) {
    PortRef port = decision_.plan.rails[pair.rail].port;
    const Rect& gpu = layout_.gpus[pair.gpu];
    const Rect& hca = layout_.hcas[port.hca];
    Rect strip = port_rect(hca, port.port);
    bool is_right = hca.x > gpu.x + gpu.width;
    bool is_left = hca.x + hca.width < gpu.x;
    // So that the lines of one GPU do not cover each other, a later rail starts higher and swings
    // out more.
    const std::vector<int>& rails = decision_.plan.gpus[pair.gpu].rails;
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

  const RailDecision& decision_;
  Layout layout_;
};

}  // namespace

std::string svg_text(const RailDecision& decision) { return Picture(decision).text(); }

}  // namespace gdr::tools::topo
