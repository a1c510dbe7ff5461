# bash completion of nccl-gdr: the words are those of `nccl-gdr SUBCOMMAND... --help`. Values of options,
# and arguments of a program behind `with-softhca`, are completed as file names.
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash

_nccl_gdr() {
  local current="${COMP_WORDS[COMP_CWORD]}" path=("${COMP_WORDS[0]}") word text words=
  COMPREPLY=()
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [[ $word == [a-z]* ]] || break
    path+=("$word")
  done
  if [[ ${path[1]-} == with-softhca && ($current != -* || ${#path[@]} -gt 2) ]]; then
    ((${#path[@]} > 2)) || mapfile -t COMPREPLY < <(compgen -c -- "$current")
    return
  fi
  text="$("${path[@]}" --help 2>/dev/null)" || return 0
  if [[ $current == -* ]]; then
    words="$(sed -nE 's/^ {2,4}(-[^ {]*).*/\1/p' <<<"$text" | tr ',' ' ')"
  elif ((${#path[@]} == COMP_CWORD)); then
    words="$(sed -nE '1,/^Subcommands:/d; s/^  ([a-z][a-z_-]*) .*/\1/p' <<<"$text")"
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}

complete -o default -F _nccl_gdr nccl-gdr
