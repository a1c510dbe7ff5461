#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "tools/commands.h"
#include "tools/common/exit_codes.h"

namespace gdr::tools {
namespace {

// Returns an error text if a word stands where a subcommand is expected and is the name of none; ""
// otherwise. `words` are those behind the program's name.
std::string unknown_command(const CLI::App& app, std::span<char* const> words) {
  const CLI::App* within = &app;
  std::string called;  // "perf "
  for (const std::string word : words) {
    const auto commands = within->get_subcommands([](const CLI::App*) { return true; });
    if (commands.empty() || word.starts_with('-')) break;
    const auto found = std::ranges::find(commands, word, &CLI::App::get_name);
    called += word + " ";
    if (found == commands.end()) {
      std::vector<std::string> names;
      for (const CLI::App* command : commands) names.push_back(command->get_name());
      return fmt::format("unknown subcommand: {}; the subcommands are {}",
                         CLI::detail::rtrim(called), fmt::join(names, ", "));
    }
    within = *found;
  }
  return "";
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
  const std::span words(argv + std::min(argc, 1), argv + argc);
  if (const std::string error = unknown_command(app, words); !error.empty()) {
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
