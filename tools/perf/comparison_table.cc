#include "tools/perf/comparison_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/perf/statistics.h"

namespace gdr::tools {
namespace {
using nlohmann::json;
using Side = json ComparedRound::*;

std::vector<Figure> figures_of(const json& report) {
  std::vector<Figure> figures;
  if (report.at("tool") == "sendrecv") {
    figures = {{"BW average[MiB/sec]", "average_mib_s", "bandwidth", "/average_mib_s"_json_pointer},
               {"t_typical[usec]", "typical_us", "latency", "/typical_us"_json_pointer}};
  } else {
    figures = {{"out-of-place busbw(GB/s)", "out_of_place_busbw_gb_s", "results",
                "/out_of_place/busbw_gb_s"_json_pointer},
               {"in-place busbw(GB/s)", "in_place_busbw_gb_s", "results",
                "/in_place/busbw_gb_s"_json_pointer}};
  }
  std::erase_if(figures, [&](const Figure& figure) { return report.at(figure.rows).empty(); });
  return figures;
}

double median_of(const std::vector<ComparedRound>& rounds, Side side, const Figure& figure,
                 size_t row) {
  std::vector<double> values;
  for (const ComparedRound& round : rounds) {
    values.push_back((round.*side).at(figure.rows).at(row).at(figure.value).get<double>());
  }
  return median(std::move(values));
}

std::string ratio_text(const ComparedFigure& figure) {
  auto ratio = figure.ratio();
  return ratio ? fmt::format("{:.2f}", *ratio) : "-";
}
}  // namespace

std::optional<double> ComparedFigure::ratio() const {
  if (first == 0) return std::nullopt;
  return second / first;
}

ComparedTable compare_rounds(const std::vector<ComparedRound>& rounds) {
  ComparedTable table;
  if (rounds.empty()) return table;
  const json& model = rounds.front().first;
  table.figures = figures_of(model);
  if (table.figures.empty()) return table;
  const json& rows = model.at(table.figures.front().rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    ComparedRow row{rows[i].at("bytes").get<size_t>(), {}};
    for (const Figure& figure : table.figures) {
      row.figures.push_back({median_of(rounds, &ComparedRound::first, figure, i),
                             median_of(rounds, &ComparedRound::second, figure, i)});
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string comparison_header(const ComparedTable& table) {
  std::string titles = fmt::format("#{:<10}", "");
  std::string columns = fmt::format(" {:<10}", "#bytes");
  for (const Figure& figure : table.figures) {
    titles += fmt::format(" {:>35}", figure.title);
    columns += fmt::format(" {:>13} {:>12} {:>8}", "first", "second", "ratio");
  }
  return titles + "\n" + columns;
}

std::string format_row(const ComparedRow& row) {
  std::string line = fmt::format(" {:<10}", row.bytes);
  for (const ComparedFigure& figure : row.figures) {
    line +=
        fmt::format(" {:>13.2f} {:>12.2f} {:>8}", figure.first, figure.second, ratio_text(figure));
  }
  return line;
}

json to_json(const ComparedTable& table) {
  json rows = json::array();
  for (const ComparedRow& row : table.rows) {
    json entry = {{"bytes", row.bytes}};
    for (size_t i = 0; i < table.figures.size(); ++i) {
      const ComparedFigure& figure = row.figures[i];
      auto ratio = figure.ratio();
      entry[table.figures[i].key] = {{"first", figure.first},
                                     {"second", figure.second},
                                     {"ratio", ratio ? json(*ratio) : json()}};
    }
    rows.push_back(std::move(entry));
  }
  return rows;
}

VerifiedTotal verified_in(const std::vector<ComparedRound>& rounds) {
  VerifiedTotal total;
  for (const ComparedRound& round : rounds) {
    for (const json* report : {&round.first, &round.second}) {
      auto messages = report->find("verified");
      if (messages != report->end()) {
        total.messages = total.messages.value_or(0) + messages->get<uint64_t>();
      }
      total.wrong += report->at("wrong").get<uint64_t>();
    }
  }
  return total;
}

std::string verified_line(const std::vector<ComparedRound>& rounds) {
  const json& model = rounds.front().first;
  if (!model.at("checked").get<bool>()) return "# nothing verified (--no-check)";
  VerifiedTotal total = verified_in(rounds);
  if (total.messages) {
    return fmt::format("# {} messages verified: {} wrong", *total.messages, total.wrong);
  }
  return fmt::format("# {} ranks, {} sizes, {} rounds of each side: {} wrong",
                     model.at("ranks").size(), model.at("results").size(), rounds.size(),
                     total.wrong);
}

}  // namespace gdr::tools
