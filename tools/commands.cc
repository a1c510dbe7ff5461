#include "tools/commands.h"

#include <string>

#include "base/commit.h"

namespace gdr::tools {

void add_commands(CLI::App& app) {
  app.description("Measures, tests and explains NCCL network plugins and GPUDirect RDMA");
  add_footer(&app, "nccl-gdr with-softhca nccl-gdr perf all_reduce",
             usual_statuses("wrong results, a failed check or case, or a difference"));
  app.require_subcommand(1);
  const std::string commit = *kCommit == '\0' ? "" : std::string(" (commit ") + kCommit + ")";
  app.set_version_flag("--version", "nccl-gdr " GDR_VERSION + commit, "Print the version and exit");
  add_perf_command(app);
  add_conformance_command(app);
  add_topo_command(app);
  add_doctor_command(app);
  add_env_command(app);
  add_with_softhca_command(app);
}

}  // namespace gdr::tools
