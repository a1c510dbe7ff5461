// What the plugin logs in one process of rail_loss: printed to standard error with times, and
// searched for what is counted.
#pragma once

#include <string>
#include <vector>

#include "plugin/abi/nccl_types.h"

namespace gdr::rail_loss {

class Log {
 public:
  static void logger(abi::ncclDebugLogLevel level, unsigned long flags, const char* file, int line,
                     const char* format, ...);
  // A line of this program.
  static void note(const std::string& text);
  // How often a rail was lost, and returned, by the plugin's last line about each rail, which comes
  // when its comms are closed.
  static int lost();
  static int returned();
  static std::vector<std::string> warnings();
};

}  // namespace gdr::rail_loss
