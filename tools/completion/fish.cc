#include <fmt/format.h>

#include "tools/completion/command_spec.h"

namespace gdr::tools::completion {
namespace {

// fish reads "\\" and "\'" in single quotes, unlike POSIX shells.
std::string fish_word(const std::string& text) {
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') word += '\\';
    word += c;
  }
  return word + "'";
}

// The words of the command line that name a subcommand, as "nccl-gdr perf sendrecv".
std::string path_function(const CommandSpec& root) {
  std::string paths;
  for (const CommandSpec* command : all_commands(root)) {
    if (command != &root) paths += " " + fish_word(command->path);
  }
  return fmt::format(
      "function __nccl_gdr_path\n"
      "    set -l path nccl-gdr\n"
      "    for word in (commandline -opc)[2..-1]\n"
      "        contains -- \"$path $word\"{}; and set path \"$path $word\"\n"
      "    end\n"
      "    echo $path\n"
      "end\n\n",
      paths);
}

std::string option_line(const std::string& condition, const OptionSpec& option) {
  std::string names;
  for (const std::string& name : option.names) {
    names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  return fmt::format("complete -c nccl-gdr {}{}{} -d {}\n", condition, names,
                     option.takes_value ? " -r" : "", fish_word(option.description));
}

}  // namespace

std::string fish_script(const CommandSpec& root) {
  std::string text = "# fish completion for nccl-gdr, printed by `nccl-gdr completion fish`.\n\n" +
                     path_function(root);
  for (const CommandSpec* command : all_commands(root)) {
    const std::string condition =
        fmt::format("-n 'test (__nccl_gdr_path) = \"{}\"'", command->path);
    for (const CommandSpec& below : command->commands) {
      text += fmt::format("complete -c nccl-gdr {} -f -a {} -d {}\n", condition, below.name(),
                          fish_word(below.description));
    }
    for (const OptionSpec& option : command->options) text += option_line(condition, option);
    if (command->runs_program) {
      text += fmt::format(
          "complete -c nccl-gdr {} -x -a '(__fish_complete_subcommand --fcs-skip=2)'\n", condition);
    }
  }
  return text;
}

}  // namespace gdr::tools::completion
