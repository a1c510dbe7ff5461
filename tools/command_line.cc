#include <CLI/CLI.hpp>

#include "tools/commands.h"
#include "tools/common/exit_codes.h"

namespace gdr::tools {

int run_command_line(int argc, char** argv) {
  CLI::App app{"Measures, tests and explains NCCL network plugins and GPUDirect RDMA", "nccl-gdr"};
  app.require_subcommand(1);
  add_perf_command(app);
  add_conformance_command(app);
  add_topo_command(app);
  add_env_command(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::RuntimeError& ended) {
    return ended.get_exit_code();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  return kExitOk;
}

}  // namespace gdr::tools
