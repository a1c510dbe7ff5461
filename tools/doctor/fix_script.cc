// The fixes as a shell script that a person reads before running it.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "tools/doctor/report.h"
#include "tools/doctor/wrap.h"
#include "tools/topo/labels.h"

namespace gdr::tools::doctor {
namespace {

// A step of the script. The steps of one observation are a sequence: where one fails, those after
// it are left out.
struct ScriptStep {
  const CheckResult* result;
  const Observation* observation;
  const FixStep* step;
  size_t number;    // from 1
  size_t sequence;  // the number of the first step of the observation
};

// What runs the steps. `case` names every step, so that nothing is composed to a command.
constexpr char kRunner[] = R"sh(
# Runs a part of a step in a shell of its own, which ends at the first command that fails.
run() {
  ( set -eu; step "$1" )
}

# A boot ends what most steps do: setpci, sysctl, modprobe. They are then applied again.
is_applied() {
  [ -f "$state" ] && grep -qxF "$1 $boot" "$state"
}

# In this boot or an earlier one: a file that a step wrote is still there.
was_applied() {
  [ -f "$state" ] && grep -q "^$1 " "$state"
}

forget() {
  grep -v "^$1 " "$state" > "$state.new" || true
  mv "$state.new" "$state"
}

apply_step() {
  if is_applied "$1"; then
    echo "step $1 was applied before: undo it first to apply it again"
    return
  fi
  if [ "$failed_sequence" = "$(sequence_of "$1")" ]; then
    echo "step $1 is left out, as a step before it failed"
    return
  fi
  run "apply_$1"
  status=$?
  if [ "$status" -eq 0 ]; then
    forget "$1"
    echo "$1 $boot" >> "$state"
    echo "step $1 is applied"
    return
  fi
  echo "step $1 FAILED with status $status" >&2
  failed="$failed $1"
  failed_sequence=$(sequence_of "$1")
}

undo_step() {
  if ! was_applied "$1"; then return; fi
  run "undo_$1"
  status=$?
  if [ "$status" -eq 0 ]; then
    forget "$1"
    case " $without_undo " in
      *" $1 "*) echo "step $1 has no undo: see its comment" ;;
      *) echo "step $1 is undone" ;;
    esac
    return
  fi
  echo "the undo of step $1 FAILED with status $status" >&2
  failed="$failed $1"
}

show_step() {
  if is_applied "$1"; then
    echo "step $1: applied"
  elif was_applied "$1"; then
    echo "step $1: applied before the last boot, which may have ended it"
  else
    echo "step $1: not applied"
  fi
}

boot=$(cat /proc/sys/kernel/random/boot_id 2>/dev/null || echo unknown)
what=${1:-}
[ $# -gt 0 ] && shift
case $what in
  apply) action=apply_step numbers=$forward ;;
  undo) action=undo_step numbers=$backward ;;
  show) action=show_step numbers=$forward ;;
  *) echo "usage: sh $0 apply|undo|show [STEP...]" >&2; exit 2 ;;
esac
for number in "$@"; do
  case " $forward " in
    *" $number "*) ;;
    *) echo "there is no step $number" >&2; exit 2 ;;
  esac
done
if [ ! -f "$0" ]; then
  echo "save this script in a file first: what it applied is kept beside it" >&2
  exit 2
fi
if [ "$what" != show ]; then
  if [ -n "$machine" ] && [ "$(uname -n)" != "$machine" ] && [ -z "${ANY_MACHINE:-}" ]; then
    echo "this script is for the machine $machine, and this is $(uname -n)" >&2
    echo "to run it nevertheless: ANY_MACHINE=1 sh $0 $what" >&2
    exit 2
  fi
  if ! : >> "$state"; then exit 1; fi
  if [ "$(id -u)" -ne 0 ]; then echo "this is not root, which most steps need" >&2; fi
fi
failed=
failed_sequence=
for number in $numbers; do
  if [ $# -gt 0 ]; then
    case " $* " in
      *" $number "*) ;;
      *) continue ;;
    esac
  fi
  $action "$number"
done
[ -s "$state" ] || rm -f "$state"
if [ -n "$failed" ]; then
  echo "failed:$failed" >&2
  exit 1
fi
)sh";

bool is_blank(const std::string& text) {
  return text.find_first_not_of(" \t\r\n") == std::string::npos;
}

std::vector<ScriptStep> steps_of(const Report& report) {
  std::vector<ScriptStep> steps;
  for (const Verdict verdict : {Verdict::kFailure, Verdict::kWarning}) {
    for (const CheckResult* result : report.with(verdict)) {
      for (const Observation& one : result->observations) {
        const size_t sequence = steps.size() + 1;
        for (const FixStep& step : one.steps) {
          if (is_blank(step.command)) continue;
          steps.push_back({result, &one, &step, steps.size() + 1, sequence});
        }
      }
    }
  }
  return steps;
}

// Every line is behind a '#', so that no text of a machine becomes a command.
std::string commented(const std::string& text, const std::string& indent = "  ") {
  return wrapped(indent + "# ", indent + "# ", text);
}

std::string seen_text(const CheckResult& result, const Observation& one) {
  return fmt::format("{}: {}{}", result.check.name, one.subject.empty() ? "" : one.subject + ": ",
                     one.evidence);
}

std::string step_text(const ScriptStep& one) {
  const bool has_undo = !is_blank(one.step->undo);
  return commented(
             fmt::format("Step {}. {}", one.number, seen_text(*one.result, *one.observation))) +
         commented(one.step->comment) +
         fmt::format("  apply_{0})\n    {1}\n    ;;\n  undo_{0})\n    {2}\n    ;;\n\n", one.number,
                     one.step->command, has_undo ? one.step->undo : ":");
}

std::string single_quoted(const std::string& text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

std::string numbers_of(const std::vector<ScriptStep>& steps, bool backward) {
  std::string numbers;
  for (const ScriptStep& one : steps) {
    const std::string number = std::to_string(one.number);
    if (numbers.empty()) {
      numbers = number;
    } else {
      numbers = backward ? number + " " + numbers : numbers + " " + number;
    }
  }
  return numbers;
}

std::string without_undo(const std::vector<ScriptStep>& steps) {
  std::string numbers;
  for (const ScriptStep& one : steps) {
    if (!is_blank(one.step->undo)) continue;
    numbers += (numbers.empty() ? "" : " ") + std::to_string(one.number);
  }
  return numbers;
}

// A script with other steps has another file, so that it never takes back what it did not apply.
std::string hash_of(const std::vector<ScriptStep>& steps) {
  uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
  for (const ScriptStep& one : steps) {
    for (const char c : one.step->command + '\n' + one.step->undo + '\n') {
      hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
    }
  }
  return fmt::format("{:08x}", static_cast<uint32_t>(hash ^ (hash >> 32)));
}

std::string step_function(const std::vector<ScriptStep>& steps) {
  std::string parts, sequences;
  for (const ScriptStep& one : steps) {
    parts += step_text(one);
    sequences += fmt::format("    {}) echo {} ;;\n", one.number, one.sequence);
  }
  return "step() {\n  case $1 in\n" + parts + "  esac\n}\n\n" +
         "# The first of the steps that belong together.\n"
         "sequence_of() {\n  case $1 in\n" +
         sequences + "  esac\n}\n";
}

// What a person has to do by hand.
std::string by_hand(const Report& report) {
  std::string text;
  for (const Verdict verdict : {Verdict::kFailure, Verdict::kWarning}) {
    for (const CheckResult* result : report.with(verdict)) {
      for (const Observation& one : result->observations) {
        if (one.fix.empty() || !one.steps.empty()) continue;
        text += commented(seen_text(*result, one), "") + unbroken("#   Fix: ", one.fix);
      }
    }
  }
  return text.empty() ? "" : "\n# Not in this script, for a person to do:\n" + text;
}

}  // namespace

std::string to_fix_script(const Report& report) {
  const std::vector<ScriptStep> steps = steps_of(report);
  const std::string machine = topo::clean_text(report.host);
  const std::string host =
      unbroken("", machine.empty() ? "this machine" : "the machine " + machine);
  std::string text =
      "#!/bin/sh\n# Fixes for what nccl-gdr doctor found on " + host +
      "# Read it before you run it. Nothing is changed before you do:\n"
      "#   sh FILE apply [STEP...]   applies all steps, or those with these numbers\n"
      "#   sh FILE undo [STEP...]    restores what the doctor saw, for the steps that were "
      "applied\n"
      "#   sh FILE show              says which steps are applied\n"
      "# A step that fails is named, and the steps of other checks go on. Exit status: 0 all "
      "done,\n"
      "# 1 a step failed, 2 usage or another machine. Beside this file it keeps a list of the "
      "steps\n"
      "# applied. After a reboot, which ends what most of them do, apply applies them again.\n";
  text += by_hand(report);
  if (steps.empty()) return text + "\necho \"there is no step to apply\"\n";
  return text +
         fmt::format(
             "\nmachine={}\nstate=$0.{}.applied\nforward=\"{}\"\nbackward=\"{}\"\n"
             "without_undo=\"{}\"\n\n",
             single_quoted(machine), hash_of(steps), numbers_of(steps, false),
             numbers_of(steps, true), without_undo(steps)) +
         step_function(steps) + kRunner;
}

}  // namespace gdr::tools::doctor
