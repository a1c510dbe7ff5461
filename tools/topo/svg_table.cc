#include <fmt/format.h>

#include <algorithm>

#include "tools/prediction/rail_agreement.h"
#include "tools/topo/svg_canvas.h"

namespace gdr::tools::topo {
namespace {

constexpr double kVerdictAt = 350;  // x of a row's last field, from the row's start
constexpr size_t kMaxChars = 90;    // of the last field; longer text is cut
constexpr double kCharWidth = 7;
constexpr size_t kMaxDifferences = 8;

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
      row.gpu = gpu_label(pair->gpu);
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
  add_text(legend, x + 52, y, row.name, "small", 9);
  add_text(legend, x + 118, y, row.gpu, "small", 7);
  add_text(legend, x + 170, y, row.port, "small", 18);
  add_text(legend, x + 304, y, row.path, "small", 6);
  add_text(legend, x + kVerdictAt, y, row.verdict, "small", kMaxChars);
}

// Draws the sentences above the table and returns the y of their end.
double draw_notes(pugi::xml_node legend, const RailDecision& decision, double width, double y) {
  std::vector<std::string> notes = {
      "A rail's GPU and port share its colour. Solid line: GPUDirect RDMA in both directions; "
      "dashed: not in both. Grey: excluded, or no rail.",
      "Each line begins at its path class and the narrowest PCIe link on the path, by the best "
      "speed "
      "and width that links support."};
  const topology::nccl::Prediction& prediction = decision.prediction;
  if (!prediction.failure().empty()) {
    notes.push_back(release_text(prediction.settings()) +
                    " fails on this machine: " + prediction.failure());
  }
  const std::vector<std::string> different =
      topology::sentences(decision.machine, topology::disagreements(decision));
  const size_t shown = std::min(different.size(), kMaxDifferences);
  for (size_t i = 0; i < shown; ++i) notes.push_back(different[i]);
  if (shown < different.size()) {
    notes.push_back(fmt::format("and {} more GPUs", different.size() - shown));
  }
  const auto fitting = static_cast<size_t>((width - 2 * kMargin) / kCharWidth);
  for (const std::string& note : notes) {
    y += kRowHeight;
    add_text(legend, kMargin, y, note, "small", fitting);
  }
  return y;
}

}  // namespace

double draw_table(pugi::xml_node svg, const RailDecision& decision, double width, double y) {
  pugi::xml_node legend = svg.append_child("g");
  set(legend, "id", "legend");
  std::vector<Row> rows = rows_of(decision);
  double step = column_width(rows);
  size_t columns = std::max<size_t>(1, static_cast<size_t>((width - kMargin) / step));
  size_t per_column = (rows.size() + columns - 1) / columns;
  double top = draw_notes(legend, decision, width, y) + 1.4 * kRowHeight;
  for (size_t i = 0; i < rows.size(); ++i) {
    size_t column = i / per_column;
    size_t line = i % per_column;
    draw_row(legend, rows[i], kMargin + static_cast<double>(column) * step,
             top + static_cast<double>(line) * kRowHeight);
  }
  return top + static_cast<double>(per_column) * kRowHeight;
}

}  // namespace gdr::tools::topo
