#include "tests/conformance/run_tool.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

namespace gdr::reference {
namespace {
using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

std::string contents(std::FILE* file) {
  std::rewind(file);
  std::string text;
  char buffer[4096];
  for (size_t got; (got = std::fread(buffer, 1, sizeof(buffer), file)) > 0;) {
    text.append(buffer, got);
  }
  return text;
}
}  // namespace

ToolRun run_tool(const std::vector<std::string>& args, const std::vector<std::string>& env) {
  File out(std::tmpfile(), &std::fclose);
  File err(std::tmpfile(), &std::fclose);
  pid_t pid = fork();
  if (pid == 0) {
    dup2(fileno(out.get()), STDOUT_FILENO);
    dup2(fileno(err.get()), STDERR_FILENO);
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
  int status = 0;
  waitpid(pid, &status, 0);
  ToolRun run;
  run.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  run.out = contents(out.get());
  run.err = contents(err.get());
  return run;
}

}  // namespace gdr::reference
