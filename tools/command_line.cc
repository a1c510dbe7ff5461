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

// Returns the command that prints the help for what was called: "nccl-gdr perf sendrecv --help".
std::string help_of(const CLI::App& app) {
  std::string words = "nccl-gdr ";
  for (auto called = app.get_subcommands(); !called.empty();
       called = called[0]->get_subcommands()) {
    words += called[0]->get_name() + " ";
  }
  return words + "--help";
}

}  // namespace

void stop(int code, const std::string& text) {
  fmt::print(stderr, "nccl-gdr: {}\n", text);
  throw CLI::RuntimeError(code);
}

void add_commands(CLI::App& app) {
  app.description("Measures, tests and explains NCCL network plugins and GPUDirect RDMA");
  app.footer(
      "Exit status of the subcommands: 0: as wanted; 1: wrong results, a failed check or case, or "
      "a difference; 2: an option cannot be used; 3: nothing could be run or looked at");
  app.require_subcommand(1);
  app.set_version_flag("--version", "nccl-gdr " GDR_VERSION, "Print the version and exit");
  add_perf_command(app);
  add_conformance_command(app);
  add_topo_command(app);
  add_doctor_command(app);
  add_env_command(app);
  add_with_softhca_command(app);
}

int run_command_line(int argc, char** argv) {
  CLI::App app{"", "nccl-gdr"};
  add_commands(app);
  if (std::string error = argc > 1 ? unknown_command(app, argv[1]) : ""; !error.empty()) {
    fmt::print(stderr, "nccl-gdr: {}\n", error);
    return kExitUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::RuntimeError& ended) {
    return ended.get_exit_code();
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    fmt::print(stderr, "nccl-gdr: {}. Fix: {} lists the options\n", error.what(), help_of(app));
    return kExitUsage;
  }
  return kExitOk;
}

}  // namespace gdr::tools
