// One of the two processes of a run: an end of two connections, one in each direction.
#pragma once

#include <string>

namespace gdr::rail_loss {

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

}  // namespace gdr::rail_loss
