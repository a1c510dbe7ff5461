// Runs nccl-gdr as a user does.
#pragma once

#include <string>
#include <vector>

namespace gdr::reference {

struct ToolRun {
  int exit_code = -1;  // -1: killed by a signal
  std::string out;
  std::string err;
};

// Runs nccl-gdr with this process's environment plus the "NAME=value" entries of env.
ToolRun run_tool(const std::vector<std::string>& args, const std::vector<std::string>& env = {});

}  // namespace gdr::reference
