#include "tests/conformance/run_tool.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

namespace gdr::reference {

// Reads by position, since a program that still runs writes at the offset that it shares.
std::string contents(std::FILE* file) {
  std::string text;
  char buffer[4096];
  for (ssize_t got;
       (got = pread(fileno(file), buffer, sizeof(buffer), static_cast<off_t>(text.size()))) > 0;) {
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

RunningTool start_tool(const Words& args, const Words& env) {
  RunningTool tool;
  tool.pid = fork();
  if (tool.pid == 0) {
    dup2(fileno(tool.out.get()), STDOUT_FILENO);
    dup2(fileno(tool.err.get()), STDERR_FILENO);
    for (const std::string& entry : env) {
      size_t equals = entry.find('=');
      setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
    }
    std::vector<char*> argv{const_cast<char*>(NCCL_GDR_TOOL)};
    for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
    argv.push_back(nullptr);
    execv(NCCL_GDR_TOOL, argv.data());
    _exit(127);
  }
  return tool;
}

ToolRun wait_for(const RunningTool& tool) {
  int status = 0;
  waitpid(tool.pid, &status, 0);
  ToolRun run;
  run.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  run.out = contents(tool.out.get());
  run.err = contents(tool.err.get());
  return run;
}

namespace {
// Waits until rank 0 has printed where it listens. Returns that, or "" if it ended before.
std::string printed_root(const RunningTool& rank0) {
  const std::string before = "rank 0 listens on ";
  for (siginfo_t ended{}; ended.si_pid == 0; usleep(10'000)) {
    waitid(P_PID, static_cast<id_t>(rank0.pid), &ended, WEXITED | WNOHANG | WNOWAIT);
    const std::string text = contents(rank0.err.get());
    const size_t at = text.find(before);
    const size_t end = text.find('\n', at);
    if (at == std::string::npos || end == std::string::npos) continue;
    return text.substr(at + before.size(), end - at - before.size());
  }
  return "";
}

Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}
}  // namespace

ToolRun run_tool(const Words& args, const Words& env) { return wait_for(start_tool(args, env)); }

std::array<ToolRun, 2> run_two_ranks(const Words& args, const Words& first, const Words& second) {
  const RunningTool rank0 =
      start_tool(joined(joined(args, first), {"--root", "127.0.0.1:0", "--rank", "0"}), {});
  const std::string root = printed_root(rank0);
  ToolRun rank1;
  if (!root.empty()) {
    rank1 = run_tool(joined(joined(args, second), {"--root", root, "--rank", "1"}));
  }
  return {wait_for(rank0), rank1};
}

}  // namespace gdr::reference
