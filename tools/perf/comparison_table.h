// Two sides of a run, measured in rounds: the median of each figure on each side, and their ratio.
// Works on the reports of `perf --json`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace gdr::tools {

struct ComparedRound {
  nlohmann::json first;
  nlohmann::json second;
};

// A column of a report's rows.
struct Figure {
  std::string title;                   // with its unit
  std::string key;                     // in the JSON, with its unit
  std::string rows;                    // the report's array
  nlohmann::json::json_pointer value;  // within a row
};

struct ComparedFigure {
  double first = 0;
  double second = 0;

  // second / first; none where the first is zero, as the bandwidth of empty messages.
  std::optional<double> ratio() const;
};

struct ComparedRow {
  size_t bytes = 0;
  std::vector<ComparedFigure> figures;  // as in ComparedTable
};

struct ComparedTable {
  std::vector<Figure> figures;
  std::vector<ComparedRow> rows;
};

// The reports are of one tool and one sweep. Figures that were not measured have no place in the
// table.
ComparedTable compare_rounds(const std::vector<ComparedRound>& rounds);

// Two lines: the figures' titles, and the columns'.
std::string comparison_header(const ComparedTable& table);
std::string format_row(const ComparedRow& row);
// An array: {"bytes": ..., <key>: {"first": ..., "second": ..., "ratio": ... or null}, ...}.
nlohmann::json to_json(const ComparedTable& table);

// Sums over all rounds and both sides.
struct VerifiedTotal {
  std::optional<uint64_t> messages;  // of sendrecv
  uint64_t wrong = 0;
};
VerifiedTotal verified_in(const std::vector<ComparedRound>& rounds);
std::string verified_line(const std::vector<ComparedRound>& rounds);

}  // namespace gdr::tools
