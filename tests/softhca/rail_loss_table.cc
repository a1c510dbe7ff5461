#include "tests/softhca/rail_loss_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace gdr::rail_loss {
namespace {

void print_outcome(const std::string& kind, Row row) {
  std::ranges::sort(row.stalls_ms);
  const bool any = !row.stalls_ms.empty();
  fmt::print("{:26} {:5} {:8} {:5} {:8} {:6} {:5} {:7} {:9} {:9.0f} {:9.0f}\n", kind, row.runs,
             row.happened, row.lost, row.returned, row.wrong, row.hung, row.failed, row.errors,
             any ? row.stalls_ms[row.stalls_ms.size() / 2] : 0, any ? row.stalls_ms.back() : 0);
}

void print_phases(const std::string& kind, const Row& row) {
  fmt::print("{:26}", kind);
  for (int count : row.phases) fmt::print(" {:>13}", count);
  fmt::print("\n");
}

}  // namespace

void Row::add(const RunResult& result) {
  ++runs;
  happened += result.all_happened;
  lost += result.lost > 0;
  returned += result.returned > 0;
  wrong += result.wrong;
  hung += result.hung;
  failed += result.failed;
  errors += result.error;
  for (const HappenedFault& fault : result.happened) ++phases[static_cast<size_t>(fault.phase)];
  if (result.all_happened && !result.hung) stalls_ms.push_back(result.stall_ms);
}

void Row::add(const Row& row) {
  runs += row.runs;
  happened += row.happened;
  lost += row.lost;
  returned += row.returned;
  wrong += row.wrong;
  hung += row.hung;
  failed += row.failed;
  errors += row.errors;
  for (size_t i = 0; i < phases.size(); ++i) phases[i] += row.phases[i];
  stalls_ms.insert(stalls_ms.end(), row.stalls_ms.begin(), row.stalls_ms.end());
}

Row Table::sum() const {
  Row all;
  for (const auto& [kind, row] : rows_) all.add(row);
  return all;
}

std::string Table::missing() const {
  std::string text;
  for (const std::string& kind : all_kinds()) {
    const auto row = rows_.find(kind);
    if (row == rows_.end() || row->second.happened == 0) text += "\n  fault: " + kind;
  }
  const Row all = sum();
  for (size_t i = 0; i < all.phases.size(); ++i) {
    if (all.phases[i] == 0) text += std::string("\n  phase: ") + kPhaseNames[i];
  }
  return text;
}

void Table::print() const {
  fmt::print("{:26} {:>5} {:>8} {:>5} {:>8} {:>6} {:>5} {:>7} {:>9} {:>9} {:>9}\n", "fault", "runs",
             "happened", "lost", "returned", "wrong", "hung", "failed", "expected", "stall ms",
             "worst");
  for (const auto& [kind, row] : rows_) print_outcome(kind, row);
  print_outcome("all", sum());
  fmt::print("\n{:26}", "happened at");
  for (const char* name : kPhaseNames) fmt::print(" {:>13}", name);
  fmt::print("\n");
  for (const auto& [kind, row] : rows_) print_phases(kind, row);
  print_phases("all", sum());
}

}  // namespace gdr::rail_loss
