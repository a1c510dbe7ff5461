// nccl-gdr: runs perf, and the program nccl-gdr-diagnose beside it for every other subcommand.
#include <unistd.h>

#include <cstdio>
#include <string>

#include "tools/common/installed_folders.h"
#include "tools/common/output.h"

// tools/commands.h would include CLI11, which compiles slowly.
namespace CLI {
class App;
}
namespace gdr::tools {
void add_perf_command(CLI::App& app);
int run_command_line(int argc, char** argv, void (*add)(CLI::App& app));
}  // namespace gdr::tools

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "perf") {
    return gdr::tools::run_command_line(argc, argv, &gdr::tools::add_perf_command);
  }
  const std::string program = gdr::tools::program_folder() + "/nccl-gdr-diagnose";
  (void)execv(program.c_str(), argv);
  std::perror(("nccl-gdr: cannot run " + program).c_str());
  std::fputs("Fix: install it beside nccl-gdr, or in a source tree run ./run build\n", stderr);
  const bool is_with_softhca = argc > 1 && std::string(argv[1]) == "with-softhca";
  return is_with_softhca ? gdr::tools::kExitNoSofthca : gdr::tools::kExitCouldNotRun;
}
