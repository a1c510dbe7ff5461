#include <fmt/format.h>
#include <fnmatch.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "tools/commands.h"
#include "tools/common/exit_codes.h"
#include "tools/common/json_file.h"
#include "tools/conformance/runner.h"

namespace gdr::tools {
namespace {
using Verdict = CaseResult::Verdict;

constexpr int kMachines = 2;  // of a run with --root

struct CheckCommand {
  CheckOptions options;
  bool list = false;
  std::string filter = "*";
  std::string json;
};

struct Counts {
  int passed = 0;
  int failed = 0;
  int skipped = 0;
};

const char* word_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kFailed:
      return "FAIL";
    case Verdict::kSkipped:
      return "skip";
  }
  return "?";
}

void print_result(const CheckCase& check, const CaseResult& result) {
  fmt::print("{:<4}  {:<34} {:6.2f} s", word_of(result.verdict), check.id, result.seconds);
  if (result.verdict == Verdict::kFailed) {
    fmt::print("\n      broken: {}\n      seen:   {}", check.clause, result.text);
  } else if (result.verdict == Verdict::kSkipped) {
    fmt::print("  {}", result.text);
  }
  fmt::print("\n");
  std::fflush(stdout);
}

nlohmann::json to_json(const CheckCase& check, const CaseResult& result) {
  return {{"id", check.id},
          {"clause", check.clause},
          {"result", word_of(result.verdict)},
          {"seen", result.text},
          {"seconds", result.seconds}};
}

CheckCases selected(const CheckCommand& command) {
  CheckCases cases = all_cases();
  std::erase_if(cases, [&](const CheckCase& check) {
    bool fits = command.options.root.empty() || check.ranks == kMachines;
    return !fits || fnmatch(command.filter.c_str(), check.id, 0) != 0;
  });
  return cases;
}

int run_all(const CheckCommand& command, const CheckCases& cases) {
  bool quiet = command.json == "-";
  Counts counts;
  nlohmann::json report = {{"plugin", command.options.plugin},
                           {"seed", command.options.seed},
                           {"cases", nlohmann::json::array()}};
  int ordinal = 0;
  for (const CheckCase& check : cases) {
    CaseResult result = run_case(check, command.options, ordinal++);
    counts.passed += result.verdict == Verdict::kOk;
    counts.failed += result.verdict == Verdict::kFailed;
    counts.skipped += result.verdict == Verdict::kSkipped;
    report["cases"].push_back(to_json(check, result));
    if (!quiet) print_result(check, result);
  }
  report["passed"] = counts.passed;
  report["failed"] = counts.failed;
  report["skipped"] = counts.skipped;
  if (!command.json.empty()) {
    if (Status written = write_json(command.json, report); !written) {
      fmt::print(stderr, "nccl-gdr: {}\n", written.error().text);
      return kExitCouldNotRun;
    }
  }
  if (!quiet) {
    fmt::print("{} passed, {} failed, {} skipped\n", counts.passed, counts.failed, counts.skipped);
  }
  return counts.failed == 0 ? kExitOk : kExitFailed;
}

// A plugin that cannot be loaded would fail every case: say it once instead. In a process of its
// own, as the plugin must not be loaded where ranks are forked.
Status check_loadable(const CheckOptions& options) {
  GroupSpec spec;
  spec.local = {0};
  spec.patience_seconds = options.timeout_seconds;
  auto outcomes = run_group(spec, [&](Rank& rank) {
    auto plugin = Plugin::load(options.plugin);
    if (!plugin) rank.board().set_report(plugin.error().text);
    return plugin ? kExitOk : kExitCouldNotRun;
  });
  if (!outcomes) return forward_error(outcomes);
  const RankOutcome& outcome = outcomes->front();
  if (outcome.well()) return {};
  return fail(Code::kInvalidUsage, outcome.report.empty() ? describe(outcome) : outcome.report);
}

void run(const CheckCommand& command) {
  if (auto group = group_of(kMachines, command.options.root, command.options.rank); !group) {
    fmt::print(stderr, "nccl-gdr: {}\n", group.error().text);
    throw CLI::RuntimeError(kExitUsage);
  }
  CheckCases cases = selected(command);
  if (cases.empty()) {
    fmt::print(stderr, "nccl-gdr: no case matches \"{}\"; --list shows them\n", command.filter);
    throw CLI::RuntimeError(kExitUsage);
  }
  if (command.list) {
    for (const CheckCase& check : cases) fmt::print("{:<34} {}\n", check.id, check.clause);
    return;
  }
  if (Status loadable = check_loadable(command.options); !loadable) {
    fmt::print(stderr, "nccl-gdr: {}\n", loadable.error().text);
    throw CLI::RuntimeError(kExitCouldNotRun);
  }
  if (int code = run_all(command, cases); code != kExitOk) throw CLI::RuntimeError(code);
}
}  // namespace

void add_conformance_command(CLI::App& app) {
  auto command = std::make_shared<CheckCommand>();
  CheckOptions& o = command->options;
  CLI::App* check =
      app.add_subcommand("conformance", "Run the conformance suite on a network plugin's table");
  check->add_option("--plugin", o.plugin, "Plugin: a file, or a name as NCCL_NET_PLUGIN takes")
      ->capture_default_str();
  check->add_option("--dev", o.dev, "Device by index")->capture_default_str();
  check->add_flag("--list", command->list, "List the cases and what each checks");
  check->add_option("--filter", command->filter, "Only cases whose id matches this glob")
      ->capture_default_str();
  check->add_option("--seed", o.seed, "Seed of sizes, orders and data")->capture_default_str();
  check->add_option("--timeout", o.timeout_seconds, "Seconds that anything may take")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  check
      ->add_option("--call-limit", o.call_limit_seconds,
                   "Seconds from which on listen, connect or accept count as blocking")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  check
      ->add_option("--peer-death-timeout", o.peer_death_seconds,
                   "Seconds in which a dead peer must become an error")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  check->add_option("--root", o.root,
                    "ADDR:PORT where rank 0 listens, to run the cases of two processes over two "
                    "machines; start the same command on both with its own --rank");
  check->add_option("--rank", o.rank, "This machine's rank, with --root: 0 or 1");
  check->add_option("--json", command->json, "Write the results to this file; -: to stdout only");
  check->callback([command] { run(*command); });
}

}  // namespace gdr::tools
