// nccl-gdr: one program with a subcommand for each task.
#include <CLI/CLI.hpp>

#include "tools/commands.h"
#include "tools/common/exit_codes.h"

int main(int argc, char** argv) {
  CLI::App app{"Measures, tests and explains NCCL network plugins and GPUDirect RDMA", "nccl-gdr"};
  app.require_subcommand(1);
  gdr::tools::add_perf_command(app);
  gdr::tools::add_conformance_command(app);
  gdr::tools::add_topo_command(app);
  gdr::tools::add_env_command(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::RuntimeError& ended) {
    return ended.get_exit_code();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? gdr::tools::kExitOk : gdr::tools::kExitUsage;
  }
  return gdr::tools::kExitOk;
}
