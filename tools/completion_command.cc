#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "tools/commands.h"
#include "tools/completion/command_spec.h"

namespace gdr::tools {
namespace {

using completion::CommandSpec;
using completion::OptionSpec;

OptionSpec option_spec(const CLI::Option& option) {
  OptionSpec spec;
  for (const std::string& name : option.get_snames()) spec.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) spec.names.push_back("--" + name);
  spec.takes_value = option.get_items_expected_max() > 0;
  spec.description = option.get_description();
  return spec;
}

CommandSpec command_spec(const CLI::App& app, const std::string& parent) {
  CommandSpec spec;
  spec.path = (parent.empty() ? "" : parent + " ") + app.get_name();
  spec.description = app.get_description();
  spec.runs_program = app.get_prefix_command();
  for (const CLI::Option* option : app.get_options()) {
    const bool is_inherited = app.get_name().empty() && option == app.get_help_ptr();
    if (option->nonpositional() && !is_inherited) spec.options.push_back(option_spec(*option));
  }
  for (const CLI::App* one : app.get_subcommands([](const CLI::App*) { return true; })) {
    CommandSpec below = command_spec(*one, spec.path);
    if (one->get_name().empty()) {  // a group of options of this command
      std::move(below.options.begin(), below.options.end(), std::back_inserter(spec.options));
    } else {
      spec.commands.push_back(std::move(below));
    }
  }
  return spec;
}

std::string script(const std::string& shell, const CommandSpec& root) {
  if (shell == "bash") return completion::bash_script(root);
  return shell == "fish" ? completion::fish_script(root) : completion::zsh_script(root);
}

}  // namespace

void add_completion_command(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  CLI::App* sub = app.add_subcommand(
      "completion", "Print a script that completes command lines of nccl-gdr in a shell");
  sub->add_option("shell", *shell, "bash, fish or zsh")
      ->required()
      ->check(CLI::IsMember({"bash", "fish", "zsh"}));
  sub->callback([shell, &app] { fmt::print("{}", script(*shell, command_spec(app, ""))); });
}

}  // namespace gdr::tools
