// The fixes as a shell script that a person reads before running it.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "tools/doctor/report.h"

namespace gdr::tools::doctor {
namespace {

struct Step {
  const CheckResult* result;
  const Observation* observation;
  const FixStep* step;
};

std::vector<Step> steps_of(const Report& report) {
  std::vector<Step> steps;
  for (const Verdict verdict : {Verdict::kFailure, Verdict::kWarning}) {
    for (const CheckResult* result : report.with(verdict)) {
      for (const Observation& one : result->observations) {
        for (const FixStep& step : one.steps) steps.push_back({result, &one, &step});
      }
    }
  }
  return steps;
}

// Every line behind a '#', so that no text of a machine becomes a command.
std::string comment(const std::string& text) {
  std::istringstream lines(text);
  std::string commented;
  for (std::string line; std::getline(lines, line);) {
    line.erase(std::remove(line.begin(), line.end(), '\r'), line.end());
    commented += "  # " + line + "\n";
  }
  return commented;
}

std::string block(const Step& step) {
  const Observation& one = *step.observation;
  return comment(fmt::format("{}: {}{}", step.result->check.name,
                             one.subject.empty() ? "" : one.subject + ": ", one.evidence)) +
         comment(step.step->comment);
}

// An undo takes the steps back in the opposite order.
std::string functions(const std::vector<Step>& steps) {
  std::string text = "apply() {\n  :\n";
  for (const Step& one : steps) text += block(one) + "  " + one.step->command + "\n\n";
  text += "}\n\nundo() {\n  :\n";
  for (auto one = steps.rbegin(); one != steps.rend(); ++one) {
    if (one->step->undo.empty()) continue;
    text += block(*one) + "  " + one->step->undo + "\n\n";
  }
  return text + "}\n";
}

// What a person has to do by hand.
std::string by_hand(const Report& report) {
  std::string text;
  for (const Verdict verdict : {Verdict::kFailure, Verdict::kWarning}) {
    for (const CheckResult* result : report.with(verdict)) {
      for (const Observation& one : result->observations) {
        if (one.fix.empty() || !one.steps.empty()) continue;
        text += comment(fmt::format("{}: {}{}. Fix: {}", result->check.name,
                                    one.subject.empty() ? "" : one.subject + ": ", one.evidence,
                                    one.fix));
      }
    }
  }
  return text.empty() ? "" : "\n# Not in this script, as no command can do it here:\n" + text;
}

}  // namespace

std::string to_fix_script(const Report& report) {
  return fmt::format(
      "#!/bin/sh\n"
      "# Fixes for what nccl-gdr doctor found on {}. Read it before you run it, as root:\n"
      "#   sh FILE apply    does all of it\n"
      "#   sh FILE undo     takes it back; settings are those that the doctor saw\n"
      "set -eu\n\n{}{}\n"
      "case \"${{1:-}}\" in\n"
      "  apply) apply ;;\n"
      "  undo) undo ;;\n"
      "  *) echo \"usage: sh $0 apply|undo\" >&2; exit 2 ;;\n"
      "esac\n",
      report.host.empty() ? "this machine" : report.host, functions(steps_of(report)),
      by_hand(report));
}

}  // namespace gdr::tools::doctor
