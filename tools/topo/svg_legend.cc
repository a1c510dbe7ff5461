#include "tools/topo/svg_legend.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/topo/colours.h"
#include "tools/topo/labels.h"
#include "tools/topo/pairs.h"
#include "tools/topo/svg_canvas.h"

namespace gdr::topology {
namespace {

constexpr double kWordsAt = 350;   // x of a row's last field
constexpr size_t kMostChars = 90;  // of it
constexpr double kCharWidth = 6.8;
constexpr double kRowHeight = 19;
constexpr double kMargin = 24;

struct Row {
  std::string colour;
  bool dashed = false;
  bool rail = true;  // else a hatched chip
  std::string name, gpu, port, path, words;
};

std::vector<Row> rows_of(const RailDecision& view) {
  const RailPlan& plan = view.plan;
  std::vector<RailPair> pairs = rail_pairs(view);
  std::vector<Row> rows;
  auto pair = pairs.begin();
  for (size_t i = 0; i < plan.rails.size(); ++i) {
    const Rail& rail = plan.rails[i];
    Row row{rail_colour(i),
            false,
            true,
            fmt::format("rail {}", rail.id),
            "-",
            "",
            "-",
            rail.usable ? "no GPU uses it" : rail.why_not};
    row.port = port_label(view.machine, rail.port);
    if (pair == pairs.end() || pair->rail != i) rows.push_back(row);
    for (; pair != pairs.end() && pair->rail == i; ++pair) {
      row.gpu = fmt::format("GPU{}", pair->gpu);
      row.path = pair->path;
      row.dashed = !pair->direct;
      row.words = pair->verdict;
      rows.push_back(row);
    }
  }
  for (const ExcludedPort& other : plan.others) {
    rows.push_back(Row{kGrey, false, false, "no rail", "-", port_label(view.machine, other.port),
                       "-", other.reason});
  }
  return rows;
}

double column_width(const std::vector<Row>& rows) {
  size_t longest = 0;
  for (const Row& row : rows) longest = std::max(longest, row.words.size());
  return kWordsAt + kMargin + kCharWidth * static_cast<double>(std::min(longest, kMostChars));
}

void draw_row(pugi::xml_node legend, const Row& row, double x, double y) {
  if (row.rail) {
    std::string from = fmt::format("M {} {}", number_text(x), number_text(y - 4));
    add_line(legend, fmt::format("{} h 40", from), row.colour, row.dashed);
  } else {
    set(add_rect(legend, Rect{x, y - 10, 40, 11}, "url(#hatch)"), "stroke", kGrey);
  }
  add_text(legend, x + 52, y, row.name, "small", 10);
  add_text(legend, x + 112, y, row.gpu, "small", 8);
  add_text(legend, x + 164, y, row.port, "small", 22);
  add_text(legend, x + 304, y, row.path, "small", 6);
  add_text(legend, x + kWordsAt, y, row.words, "small", kMostChars);
}

}  // namespace

double draw_legend(pugi::xml_node svg, const RailDecision& view, double width, double y) {
  pugi::xml_node legend = svg.append_child("g");
  set(legend, "id", "legend");
  std::vector<Row> rows = rows_of(view);
  double step = column_width(rows);
  size_t columns = std::max<size_t>(1, static_cast<size_t>((width - kMargin) / step));
  size_t per_column = (rows.size() + columns - 1) / columns;
  add_text(legend, kMargin, y + kRowHeight,
           "A rail's GPU and HCA share its colour. Solid line: GPUDirect RDMA both ways. Dashed "
           "line: not both ways. Grey and hatched: no rail.",
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

}  // namespace gdr::topology
