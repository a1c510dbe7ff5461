// Runs nccl-gdr as a user does.
#pragma once

#include <array>
#include <string>
#include <vector>

namespace gdr::reference {

struct ToolRun {
  int exit_code = -1;  // -1: killed by a signal
  std::string out;
  std::string err;
};

using Words = std::vector<std::string>;

// Runs nccl-gdr with this process's environment plus the "NAME=value" entries of env.
ToolRun run_tool(const Words& args, const Words& env = {});

// Runs it as rank 0 and as rank 1 of a run with --root, each with `args` and words of its own.
std::array<ToolRun, 2> run_two_ranks(const Words& args, const Words& first, const Words& second);

}  // namespace gdr::reference
