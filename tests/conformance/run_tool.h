// Runs nccl-gdr as a user does.
#pragma once

#include <string>
#include <vector>

namespace gdr::reference {

struct ToolRun {
  int exit_code = -1;  // -1: ended by a signal
  std::string out;
  std::string err;
};

// env: "NAME=value" entries on top of this process's environment.
ToolRun run_tool(const std::vector<std::string>& args, const std::vector<std::string>& env = {});

}  // namespace gdr::reference
