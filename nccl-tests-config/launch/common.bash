# What the launchers share: options, settings, and showing what is run. For bash, to be sourced.
# shellcheck shell=bash
# shellcheck disable=SC2034  # the launchers read these variables

config_dir="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
launcher="launch/${0##*/}"

nodes=1
gpus=""
program=""
transport=gdr
preset=""
plugin_dir=""
dry_run=""
settings=()
program_arguments=()

# What every launcher accepts, for its usage text.
common_usage() {
  cat <<'TEXT'
  --nodes N           nodes of the job (default: 1)
  --gpus N            GPUs, and so ranks, of each node
  --program PROGRAM   what each rank runs: a name or a path
  --preset NAME       settings for a kind of machine: presets/NAME.env
  --transport NAME    env/NAME.env: gdr is the plugin, ib NCCL's built-in transport (default: gdr)
  --plugin-dir DIR    folder of libnccl-net-gdr.so (default: build/lib of this checkout, else the installed one)
  --set NAME=VALUE    one more environment variable; it overrides the preset's
  --dry-run           print the command and end
  -- ARGUMENTS        arguments of the program
TEXT
}

usage_error() {
  printf '%s: %s\n%s: %s\n' "$launcher" "$1" "$launcher" "--help lists the options" >&2
  exit 2
}

# For what is missing on this machine; the text says what to do.
die() {
  printf '%s: %s\n' "$launcher" "$*" >&2
  exit 3
}

positive_number() {
  [[ $2 =~ ^[1-9][0-9]{0,4}$ ]] || usage_error "$1 needs a number from 1 to 99999, not '$2'"
}

# The value of option $1, which must follow it. Without one the launcher ends, as `set -e` is on.
option_value() {
  (($# >= 2)) || usage_error "$1 needs a value"
  [[ $2 != --* ]] || usage_error "$1 needs a value, not the option $2"
  printf '%s' "$2"
}

names_in() {
  local file
  for file in "$config_dir/$1"/*.env; do basename "$file" .env; done | paste -sd ' '
}

# Reads one option that every launcher has from "$@" and sets `taken` to its words; 0 if it is another option.
take_common_option() {
  taken=2
  case $1 in
    --nodes) nodes="$(option_value "$@")"; positive_number --nodes "$nodes" ;;
    --gpus) gpus="$(option_value "$@")"; positive_number --gpus "$gpus" ;;
    --program) program="$(option_value "$@")" ;;
    --preset)
      preset="$(option_value "$@")"
      [[ $preset != */* && -f $config_dir/presets/$preset.env ]] ||
        usage_error "there is no preset '$preset'; there are: $(names_in presets)"
      ;;
    --transport)
      transport="$(option_value "$@")"
      [[ " $(transports) " == *" $transport "* ]] ||
        usage_error "there is no transport '$transport'; there are: $(transports)"
      ;;
    --plugin-dir)
      plugin_dir="$(option_value "$@")"
      if [[ $plugin_dir != /* ]]; then plugin_dir="$PWD/$plugin_dir"; fi
      ;;
    --set)
      settings+=("$(option_value "$@")")
      [[ ${settings[-1]} =~ ^[A-Za-z_][A-Za-z0-9_]*= ]] ||
        usage_error "--set needs NAME=VALUE, not '${settings[-1]}'"
      ;;
    --dry-run) dry_run=1 taken=1 ;;
    --)
      program_arguments=("${@:2}")
      taken=$#
      ;;
    *) taken=0 ;;
  esac
}

transports() {
  grep -l '^# expects network ' "$config_dir"/env/*.env | sed 's|.*/||; s|\.env$||' | paste -sd ' '
}

# Exports the settings of the transport, the preset and --set, in this order.
load_settings() {
  local setting
  if [[ -n $plugin_dir ]]; then export GDR_PLUGIN_DIR="$plugin_dir"; fi
  # Set and empty means from here on that the software HCA is asked for, and was not found.
  if [[ -z ${SOFTHCA_DIR:-} ]]; then unset SOFTHCA_DIR; fi
  set -a
  # shellcheck disable=SC1090
  source "$config_dir/env/$transport.env"
  # shellcheck disable=SC1090
  if [[ -n $preset ]]; then source "$config_dir/presets/$preset.env"; fi
  set +a
  for setting in "${settings[@]}"; do export "${setting?}"; done
}

# The path of the plugin that the loader finds: in the folders of LD_LIBRARY_PATH, which has GDR_PLUGIN_DIR, or in its
# cache. ldconfig is not in every user's PATH.
plugin_file() {
  local folder folders found
  IFS=: read -ra folders <<<"${LD_LIBRARY_PATH:-}"
  for folder in "${folders[@]}"; do
    if [[ -n $folder && -e $folder/libnccl-net-gdr.so ]]; then
      printf '%s' "$folder/libnccl-net-gdr.so"
      return
    fi
  done
  found="$(PATH="$PATH:/usr/sbin:/sbin" ldconfig -p 2>/dev/null |
    sed -n 's|^[[:space:]]*libnccl-net-gdr\.so .*=> ||p')" || true
  if [[ -z $found ]]; then return 1; fi
  printf '%s' "${found%%$'\n'*}"
}

# Fails where this machine has no plugin or no software HCA, if the settings ask for them. Without this, the loader
# would go on with the system's libibverbs.
require_libraries() {
  local fix="Fix: build it (./run build), install the package nccl-net-gdr-softhca, or set SOFTHCA_DIR to the folder \
of its libibverbs.so.1"
  if [[ -n ${SOFTHCA_DIR+set} && -z $SOFTHCA_DIR ]]; then die "there is no software HCA on this machine. $fix"; fi
  if [[ :${LD_LIBRARY_PATH:-}: == *":${SOFTHCA_DIR:-none}:"* && ! -e $SOFTHCA_DIR/libibverbs.so.1 ]]; then
    die "there is no libibverbs.so.1 of the software HCA in $SOFTHCA_DIR. $fix"
  fi
  [[ ${NCCL_NET_PLUGIN:-} == gdr && ! -e $GDR_PLUGIN_DIR/libnccl-net-gdr.so ]] || return 0
  if [[ -z $plugin_dir ]] && plugin_file >/dev/null; then return 0; fi
  die "there is no libnccl-net-gdr.so in $GDR_PLUGIN_DIR. Fix: build it (./run build), install the package," \
    "or name its folder by --plugin-dir"
}

# The path of a command of this name that is not one of the launchers; $2 says how to get it.
other_command() {
  local path
  while IFS= read -r path; do
    if [[ $(readlink -f "$path") != "$config_dir/launch/"* ]]; then
      printf '%s' "$path"
      return
    fi
  done < <(type -aP "$1")
  die "$1 was not found. Fix: $2"
}

# The path of the program: as given, in NCCL_TESTS_DIR or its build/, in launch/ or the folder above it, or in PATH.
find_program() {
  local name="$1" folder
  for folder in ${NCCL_TESTS_DIR:+"$NCCL_TESTS_DIR" "$NCCL_TESTS_DIR/build"} \
    "$config_dir/launch" "$config_dir"; do
    if [[ $name != */* && -f $folder/$name && -x $folder/$name ]]; then
      printf '%s' "$folder/$name"
      return
    fi
  done
  command -v "$name" ||
    die "$name was not found. Fix: build it from https://github.com/NVIDIA/nccl-tests with MPI=1 and set" \
      "NCCL_TESTS_DIR to its folder, or give --program a path"
}

# The arguments that all_reduce_perf and its like get where none were given: one GPU a rank, up to 8 GiB.
default_arguments() {
  if ((${#program_arguments[@]} == 0)) && [[ $1 == *_perf || $1 == *_perf_mpi ]]; then
    program_arguments=(-b 8 -e 8G -f 2 -g 1)
  fi
}

# The variables that ranks on other nodes need.
forwarded_names() {
  compgen -e |
    grep -E '^(NCCL_|GDR_NCCL_|SOFTHCA_)|^(CUDA_VISIBLE_DEVICES|GDR_TOOL|LD_LIBRARY_PATH|MASTER_(ADDR|PORT))$' |
    grep -vx NCCL_TESTS_DIR || true
}

# A copy of the command that can be pasted into a shell.
print_command() {
  local name
  printf 'env'
  for name in $(forwarded_names); do printf ' %s=%q' "$name" "${!name}"; done
  printf ' %q' "$@"
  printf '\n'
}

# Shows the command and becomes it; with --dry-run it only shows it.
run_command() {
  if [[ -n $dry_run ]]; then
    print_command "$@"
    exit 0
  fi
  print_command "$@" >&2
  exec "$@"
}
