#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>

#include "tools/commands.h"
#include "tools/common/exit_codes.h"

namespace gdr::tools {
namespace {

// Returns an error text if `word` is neither an option nor the name of a subcommand; "" otherwise.
std::string unknown_command(const CLI::App& app, const std::string& word) {
  std::string names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == word) return "";
    names += (names.empty() ? "" : ", ") + command->get_name();
  }
  if (word.starts_with('-')) return "";
  return fmt::format("unknown subcommand: {}; the subcommands are {}", word, names);
}

}  // namespace

int run_command_line(int argc, char** argv) {
  CLI::App app{"Measures, tests and explains NCCL network plugins and GPUDirect RDMA", "nccl-gdr"};
  app.require_subcommand(1);
  add_perf_command(app);
  add_conformance_command(app);
  add_topo_command(app);
  add_env_command(app);
  if (std::string error = argc > 1 ? unknown_command(app, argv[1]) : ""; !error.empty()) {
    fmt::print(stderr, "nccl-gdr: {}\n", error);
    return kExitUsage;
  }
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
