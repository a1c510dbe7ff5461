#include "tools/completion/command_spec.h"

namespace gdr::tools::completion {

std::vector<const CommandSpec*> all_commands(const CommandSpec& root) {
  std::vector<const CommandSpec*> commands{&root};
  for (const CommandSpec& one : root.commands) {
    for (const CommandSpec* below : all_commands(one)) commands.push_back(below);
  }
  return commands;
}

std::vector<std::string> option_names(const CommandSpec& command, bool with_value_only) {
  std::vector<std::string> names;
  for (const OptionSpec& option : command.options) {
    if (with_value_only && !option.takes_value) continue;
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

std::string shell_word(const std::string& text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

}  // namespace gdr::tools::completion
