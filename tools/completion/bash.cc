#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/completion/command_spec.h"

namespace gdr::tools::completion {
namespace {

constexpr char kBashHead[] =
    R"SCRIPT(# bash completion for nccl-gdr, printed by `nccl-gdr completion bash`.

# Prints the options of a subcommand that take a value; with "all", its options and subcommands.
_nccl_gdr_words() {
  case "$1:$2" in
)SCRIPT";

// Option values are completed as file names, by `-o default`. bash splits --option=value at "=".
constexpr char kBashTail[] = R"SCRIPT(  esac
}

_nccl_gdr() {
  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD - 1]}"
  local path=nccl-gdr word valued i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="${COMP_WORDS[i]}"
    valued=" $(_nccl_gdr_words "$path" valued) "
    if [[ $valued == *" $word "* ]]; then
      [[ ${COMP_WORDS[i + 1]} == "=" ]] && i=$((i + 1))
      i=$((i + 1))
    elif _nccl_gdr_runs_program "$path" && [[ $word != -* ]]; then
      if declare -F _command_offset >/dev/null; then _command_offset "$i"; fi
      return
    elif [[ -n $(_nccl_gdr_words "$path $word" all) ]]; then
      path="$path $word"
    fi
  done
  valued=" $(_nccl_gdr_words "$path" valued) "
  if [[ $previous == "=" || $valued == *" $previous "* ]]; then return; fi
  if [[ $current != -* ]] && _nccl_gdr_runs_program "$path"; then
    mapfile -t COMPREPLY < <(compgen -c -- "$current")
  else
    mapfile -t COMPREPLY < <(compgen -W "$(_nccl_gdr_words "$path" all)" -- "$current")
  fi
}

complete -o default -F _nccl_gdr nccl-gdr
)SCRIPT";

}  // namespace

std::string bash_script(const CommandSpec& root) {
  std::string text = kBashHead;
  std::string programs;
  for (const CommandSpec* command : all_commands(root)) {
    std::vector<std::string> words = option_names(*command, false);
    for (const CommandSpec& below : command->commands) words.push_back(below.name());
    text += fmt::format("    \"{}:all\") echo \"{}\" ;;\n    \"{}:valued\") echo \"{}\" ;;\n",
                        command->path, fmt::join(words, " "), command->path,
                        fmt::join(option_names(*command, true), " "));
    if (command->runs_program) programs += fmt::format(" || [[ $1 == \"{}\" ]]", command->path);
  }
  text += kBashTail;
  const std::string function = fmt::format(
      "# Whether a program and its arguments follow the options of a subcommand.\n"
      "_nccl_gdr_runs_program() {{ false{}; }}\n\n",
      programs);
  return text.insert(text.find("_nccl_gdr() {"), function);
}

}  // namespace gdr::tools::completion
