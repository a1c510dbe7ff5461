// Runs nccl-gdr as a user does.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace gdr::reference {

struct ToolRun {
  int exit_code = -1;  // -1: killed by a signal
  std::string out;
  std::string err;
};

using Words = std::vector<std::string>;

// A nccl-gdr that runs, and where it writes.
struct RunningTool {
  using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;
  File out{std::tmpfile(), &std::fclose};
  File err{std::tmpfile(), &std::fclose};
  pid_t pid = -1;
};
RunningTool start_tool(const Words& args, const Words& env = {});
ToolRun wait_for(const RunningTool& tool);
// Returns what has been written so far.
std::string contents(std::FILE* file);

// Runs nccl-gdr with this process's environment plus the "NAME=value" entries of env.
ToolRun run_tool(const Words& args, const Words& env = {});

// Runs it as rank 0 and as rank 1 of a run with --root, each with `args` and words of its own.
std::array<ToolRun, 2> run_two_ranks(const Words& args, const Words& first, const Words& second);

}  // namespace gdr::reference
