#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
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
    const auto commands =
        within->get_subcommands([](const CLI::App* one) { return !one->get_name().empty(); });
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

// Returns what prints the help for what was called: "nccl-gdr perf --help lists the subcommands".
std::string help_of(const CLI::App& app) {
  const CLI::App* called = &app;
  std::string words = "nccl-gdr ";
  while (!called->get_subcommands().empty()) {
    called = called->get_subcommands()[0];
    words += called->get_name() + " ";
  }
  const bool lacks_one = called->get_require_subcommand_min() > 0;
  return words + "--help lists the " + (lacks_one ? "subcommands" : "options");
}

// CLI11 lists unknown arguments from the last to the first.
std::string text_of(const CLI::App& app, const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) return error.what();
  return fmt::format("not expected: {}", fmt::join(app.remaining(true), " "));
}

// Prints a group of options as the others, and not which options exclude each other.
class HelpFormatter : public CLI::Formatter {
  std::string make_expanded(const CLI::App* group) const override {
    std::string text = "\n" + group->get_group() + ":\n";
    for (const CLI::Option* one : group->get_options()) {
      if (one != group->get_help_ptr()) text += make_option(one, false);
    }
    return text;
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string text = CLI::Formatter::make_option_opts(option);
    return text.substr(0, text.find(" Excludes:"));
  }
};

}  // namespace

void stop(int code, const std::string& text) {
  fmt::print(stderr, "nccl-gdr: {}\n", text);
  throw CLI::RuntimeError(code);
}

CLI::Validator positive_number() {
  auto check = [](const std::string& text) -> std::string {
    double number = 0;
    const bool is_number = CLI::detail::lexical_cast(text, number) && std::isfinite(number);
    return is_number && number > 0 ? "" : fmt::format("\"{}\" is not a number above 0", text);
  };
  return CLI::Validator(check, "POSITIVE");
}

int run_command_line(int argc, char** argv, void (*add)(CLI::App& app)) {
  CLI::App app{"", "nccl-gdr"};
  app.formatter(std::make_shared<HelpFormatter>());
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
    fmt::print(stderr, "nccl-gdr: {}. Fix: {}\n", text_of(app, error), help_of(app));
    return kExitUsage;
  }
  return kExitOk;
}

}  // namespace gdr::tools
