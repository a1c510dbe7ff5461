// The tables that rail_loss prints of all its runs.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "tests/softhca/rail_loss_run.h"

namespace gdr::rail_loss {

// Of the runs of one kind of fault.
struct Row {
  int runs = 0, happened = 0, lost = 0, returned = 0, wrong = 0, hung = 0, failed = 0, errors = 0;
  std::array<int, kPhaseNames.size()> phases{};  // faults that happened in each
  std::vector<double> stalls_ms;  // of the runs whose faults happened and that did not hang

  void add(const RunResult& result);
  void add(const Row& row);
};

class Table {
 public:
  void add(const Scenario& scenario, const RunResult& result) { rows_[scenario.kind].add(result); }
  // Of all runs.
  Row sum() const;
  // The kinds and the phases of which no fault happened; "" if there are none.
  std::string missing() const;
  // What became of the runs, and when their faults happened.
  void print() const;

 private:
  std::map<std::string, Row> rows_;
};

}  // namespace gdr::rail_loss
