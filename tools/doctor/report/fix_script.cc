// The fixes as a shell script that a person reads before running it.
#include <fmt/format.h>

#include <algorithm>

#include "tools/doctor/report/report.h"
#include "tools/inspection/labels.h"
#include "tools/inspection/shell_lines.h"
#include "tools/inspection/text_table.h"

namespace gdr::tools::doctor {
namespace {

using topo::unbroken;
using topo::wrapped;

// An observation with a fix, and the check that made it.
struct Fix {
  const CheckResult* result;
  const Observation* observation;
};

// Those of failures first.
std::vector<Fix> fixes_of(const Report& report) {
  std::vector<Fix> fixes;
  for (const Verdict verdict : {Verdict::kFailure, Verdict::kWarning}) {
    for (const CheckResult* result : report.with(verdict)) {
      for (const Observation& one : result->observations) {
        if (!one.fix.empty() || !one.steps.empty()) fixes.push_back({result, &one});
      }
    }
  }
  return fixes;
}

// Every line is behind a '#', so that no text of a machine becomes a command.
std::string script_comment(const std::string& indent, const std::string& text) {
  return wrapped(indent + "# ", indent + "# ", text);
}

std::string seen_text(const Fix& fix) {
  const Observation& one = *fix.observation;
  return fmt::format("{}: {}{}", fix.result->check.name,
                     one.subject.empty() ? "" : one.subject + ": ", one.evidence);
}

// Runs commands in a shell of their own, which ends at the first one that fails. It must not be a
// part of a condition, where `set -e` has no effect.
std::string guarded(const std::string& commands, const std::string& name) {
  if (commands.empty()) return "";
  return "  (\n    set -eu\n" + commands + "  )\n" + fmt::format("  ended $? '{}'\n\n", name);
}

std::string apply_text(const Fix& fix, size_t number) {
  std::string commands;
  for (const FixStep& step : fix.observation->steps) {
    commands += script_comment("    ", step.comment) + "    " + step.command + "\n";
  }
  return script_comment("  ", fmt::format("{}. {}", number, seen_text(fix))) +
         guarded(commands, fmt::format("fix {}", number));
}

std::string undo_text(const Fix& fix, size_t number) {
  const std::vector<FixStep>& steps = fix.observation->steps;
  std::string commands;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    if (!step->undo.empty()) commands += "    " + step->undo + "\n";
  }
  return guarded(commands, fmt::format("undo of fix {}", number));
}

constexpr char kUsage[] =
    "#   sh FILE apply   makes the fixes. One that fails is named, and the others go on\n"
    "#   sh FILE undo    takes back all of them, applied or not, to what the doctor saw\n"
    "# Exit status: 0 all done, 1 something failed, 2 usage or another machine.\n";

constexpr char kFunctions[] = R"sh(
failed=0
ended() {
  if [ "$1" -eq 0 ]; then
    echo "$2: done"
  else
    echo "$2: FAILED with status $1" >&2
    failed=1
  fi
}

)sh";

// Addresses and values are those of one machine.
std::string guard_of(const std::string& machine) {
  if (machine.empty()) return "";
  return "\nmachine=" + topo::shell_word(machine) + R"sh(
if [ "$(uname -n)" != "$machine" ] && [ -z "${ANY_MACHINE:-}" ]; then
  echo "this script is for the machine $machine, unless ANY_MACHINE=1 is set" >&2
  exit 2
fi
)sh";
}

std::string body_of(const std::vector<Fix>& fixes) {
  std::string apply, undo;
  if (fixes.empty()) apply = undo = "  echo \"this script has no fixes\"\n";
  for (size_t i = 0; i < fixes.size(); ++i) {
    apply += apply_text(fixes[i], i + 1);
    undo = undo_text(fixes[i], i + 1) + undo;
  }
  return kFunctions + ("case ${1:-} in\napply)\n" + apply + "  ;;\nundo)\n" + undo) +
         "  ;;\n*)\n  echo \"usage: sh $0 apply|undo\" >&2\n  exit 2\n  ;;\nesac\n"
         "exit \"$failed\"\n";
}

std::string by_hand(const std::vector<Fix>& fixes) {
  std::string text;
  for (const Fix& fix : fixes) {
    text += script_comment("", seen_text(fix)) + unbroken("#   Fix: ", fix.observation->fix);
  }
  return text.empty() ? "" : "\n# Not in this script, for a person to do:\n" + text;
}

}  // namespace

std::string to_fix_script(const Report& report, const std::string& settings) {
  std::vector<Fix> fixes = fixes_of(report);
  const auto has_steps = [](const Fix& fix) { return !fix.observation->steps.empty(); };
  const auto manual = std::stable_partition(fixes.begin(), fixes.end(), has_steps);
  const std::vector<Fix> others(manual, fixes.end());
  fixes.erase(manual, fixes.end());
  const std::string machine = topo::clean_text(report.host);
  std::string text = "#!/bin/sh\n" +
                     unbroken("# Fixes for what nccl-gdr doctor found on ",
                              machine.empty() ? "this machine" : "the machine " + machine) +
                     "# Read it before you run it. Nothing is changed before you do:\n" + kUsage +
                     by_hand(others);
  if (!settings.empty()) {
    text += "\n# Settings for jobs: copy these lines to the job's script. Here they do nothing.\n" +
            settings;
  }
  return text + (fixes.empty() ? "" : guard_of(machine)) + body_of(fixes);
}

}  // namespace gdr::tools::doctor
