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

int run_command_line(int argc, char** argv, void (*add)(CLI::App& app)) {
  CLI::App app{"", "nccl-gdr"};
  add(app);
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
