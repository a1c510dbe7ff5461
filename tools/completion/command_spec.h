// What a shell needs to complete the command lines of a program: its subcommands and options.
#pragma once

#include <string>
#include <vector>

namespace gdr::tools::completion {

struct OptionSpec {
  std::vector<std::string> names;  // with their dashes: -b, --begin
  bool takes_value = false;
  std::string description;
};

struct CommandSpec {
  std::string path;  // the words that lead to it: "nccl-gdr perf sendrecv"
  std::string description;
  std::vector<OptionSpec> options;
  std::vector<CommandSpec> commands;
  bool runs_program = false;  // a program and its arguments follow the options

  // Returns the last word of the path.
  std::string name() const { return path.substr(path.rfind(' ') + 1); }
};

// Returns the command and all those below it, each before those below it.
std::vector<const CommandSpec*> all_commands(const CommandSpec& root);

// Returns the names of all options, or of those that take a value.
std::vector<std::string> option_names(const CommandSpec& command, bool with_value_only);

// Returns the text as one word of a POSIX shell, zsh or bash: in single quotes.
std::string shell_word(const std::string& text);

// The completion scripts. Each is complete by itself and sets up completion for the name of `root`.
std::string bash_script(const CommandSpec& root);
std::string fish_script(const CommandSpec& root);
std::string zsh_script(const CommandSpec& root);

}  // namespace gdr::tools::completion
