// Runs one seed: starts both ends as processes, and judges what became of them; and such an end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/softhca/rail_loss_happened.h"
#include "tests/softhca/rail_loss_scenario.h"

namespace gdr::rail_loss {

struct RunArguments {
  std::string program;  // this one
  std::string plugin;
  std::string libraries;  // folders of the software HCA and of the fake CUDA driver
  std::string gpu_libraries;
  std::string folder;  // for logs and fault files
};

struct RunResult {
  bool wrong = false;
  bool hung = false;
  // An error where there must be none, or one without a reason; or no error where one must be.
  bool failed = false;
  bool error = false;  // an error that may be, with its reason
  int lost = 0;        // rails that either end has lost
  int returned = 0;
  double stall_ms = 0;  // of the end that stalled longer
  std::vector<HappenedFault> happened;
  bool all_happened = false;  // every fault of the scenario
  std::string text;           // what is not as it should be
};

RunResult run(const Scenario& scenario, const RunArguments& arguments);

// One of the two processes: an end of two connections, one in each direction.
struct EndArguments {
  uint64_t seed = 0;
  int end = 0;
  std::string plugin;       // file
  std::string faults_file;  // to which faults are appended while the process runs
};

// Speaks with the process that started it in lines: prints "handle <hex>" and reads "peer <hex>";
// prints "done <JSON of EndResult>" and reads "close"; prints "closed <JSON>". Returns the exit
// status.
int run_end(const EndArguments& arguments);

// The files of a run.
std::string log_file(const RunArguments& arguments, uint64_t seed, int end);

}  // namespace gdr::rail_loss
