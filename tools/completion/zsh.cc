#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/completion/command_spec.h"

namespace gdr::tools::completion {
namespace {

// From the first line compinit knows which command the file completes.
constexpr char kZshHead[] = R"SCRIPT(#compdef nccl-gdr
# zsh completion for nccl-gdr, printed by `nccl-gdr completion zsh`.

# Sets flags, valued and subcommands of a subcommand; fails where there is none of that path.
_nccl_gdr_words() {
  flags=() valued=() subcommands=() program=0
  case "$1" in
)SCRIPT";

constexpr char kZshTail[] = R"SCRIPT(    *) return 1 ;;
  esac
}

_nccl_gdr() {
  local -a flags valued subcommands
  local call=nccl-gdr program i
  _nccl_gdr_words "$call"
  for ((i = 2; i < CURRENT; i++)); do
    if (( ${valued[(Ie)${words[i]}]} )); then
      i=$((i + 1))
    elif [[ $program == 1 && ${words[i]} != -* ]]; then
      shift $((i - 1)) words
      CURRENT=$((CURRENT - i + 1))
      _normal
      return
    elif _nccl_gdr_words "$call ${words[i]}"; then
      call="$call ${words[i]}"
    else
      _nccl_gdr_words "$call"
    fi
  done
  if (( ${valued[(Ie)${words[CURRENT - 1]}]} )); then
    _files
  elif [[ $program == 1 && ${words[CURRENT]} != -* ]]; then
    _command_names -e
  else
    _describe -t commands subcommand subcommands
    _describe -o -t options option flags
  fi
}

if [[ $funcstack[1] == _nccl-gdr ]]; then
  _nccl_gdr "$@"
else
  compdef _nccl_gdr nccl-gdr
fi
)SCRIPT";

std::string entry(const std::string& name, const std::string& description) {
  return shell_word(name + ":" + description);
}

}  // namespace

std::string zsh_script(const CommandSpec& root) {
  std::string text = kZshHead;
  for (const CommandSpec* command : all_commands(root)) {
    std::vector<std::string> options, commands;
    for (const OptionSpec& option : command->options) {
      for (const std::string& name : option.names)
        options.push_back(entry(name, option.description));
    }
    for (const CommandSpec& below : command->commands) {
      commands.push_back(entry(below.name(), below.description));
    }
    text += fmt::format(
        "    \"{}\")\n      flags=({})\n      valued=({})\n      subcommands=({})\n"
        "      program={} ;;\n",
        command->path, fmt::join(options, " "), fmt::join(option_names(*command, true), " "),
        fmt::join(commands, " "), command->runs_program ? 1 : 0);
  }
  return text + kZshTail;
}

}  // namespace gdr::tools::completion
