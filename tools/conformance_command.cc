#include <fmt/format.h>
#include <fnmatch.h>

#include <array>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/commands.h"
#include "tools/common/nccl_logger.h"
#include "tools/common/output.h"
#include "tools/conformance/case.h"
#include "tools/net/deleters.h"
#include "tools/net/plugin_loader.h"

namespace gdr::tools {
namespace {
using Verdict = CaseResult::Verdict;

constexpr int kMachines = 2;  // number of machines of a run with --root

struct ConformanceCommand {
  ConformanceOptions options;
  std::string root;  // where rank 0 serves a run over two machines; empty: all ranks run here
  int rank = -1;     // of this machine, with root
  bool all_tables = false;  // run once for each version that the plugin exports
  bool list = false;
  std::string filter = "*";
  std::string json;
};

// By verdict.
constexpr std::array kVerdictTexts{"ok", "FAIL", "skip"};
using Counts = std::array<int, kVerdictTexts.size()>;

const char* text_of(Verdict verdict) { return kVerdictTexts[static_cast<size_t>(verdict)]; }

std::string text_of(const Counts& counts) {
  return fmt::format("{} passed, {} failed, {} skipped", counts[0], counts[1], counts[2]);
}

void print_result(const ConformanceCase& one, const CaseResult& result) {
  fmt::print("{:<4}  {:<34} {:6.2f} s", text_of(result.verdict), one.id, result.seconds);
  if (result.verdict == Verdict::kFailed) {
    fmt::print("\n      broken: {}\n      seen:   {}", one.clause, result.text);
  } else if (result.verdict == Verdict::kSkipped) {
    fmt::print("  {}", result.text);
  }
  print_now("\n");
}

nlohmann::json to_json(const ConformanceCase& one, const CaseResult& result) {
  return {{"id", one.id},
          {"clause", one.clause},
          {"result", text_of(result.verdict)},
          {"seen", result.text},
          {"seconds", result.seconds}};
}

ConformanceCases selected(const ConformanceCommand& command) {
  ConformanceCases cases = all_cases();
  std::erase_if(cases, [&](const ConformanceCase& one) {
    const bool fits = command.root.empty() || one.ranks == kMachines;
    return !fits || fnmatch(command.filter.c_str(), one.id, FNM_EXTMATCH) != 0;
  });
  return cases;
}

// What all tables of a run have in common.
struct Suite {
  const ConformanceCommand& command;
  ConformanceCases cases;
  std::optional<GroupSpec> machines;  // with --root; its listener is that of all cases
  Counts counts{};                    // of all tables
};

// Runs the suite over one version of the table, and returns the report.
nlohmann::json run_table(Suite& suite, int version) {
  bool quiet = suite.command.json == "-";
  ConformanceOptions options = suite.command.options;
  options.table = version;
  Counts counts{};
  nlohmann::json results = nlohmann::json::array();
  if (!quiet) {
    print_now(fmt::format("table v{} (NCCL from {})\n", version, contract_of(version).first_nccl));
  }
  for (const ConformanceCase& one : suite.cases) {
    if (suite.machines) ++suite.machines->run;
    CaseResult result = run_case(one, options, suite.machines);
    ++counts[static_cast<size_t>(result.verdict)];
    ++suite.counts[static_cast<size_t>(result.verdict)];
    results.push_back(to_json(one, result));
    if (!quiet) print_result(one, result);
  }
  if (!quiet) fmt::print("{}\n", text_of(counts));
  return {{"plugin", options.plugin}, {"table", version},    {"seed", options.seed},
          {"cases", results},         {"passed", counts[0]}, {"failed", counts[1]},
          {"skipped", counts[2]}};
}

// Returns the exit code. The report of --table all is the list of its tables' reports.
int run_all(Suite& suite, const std::vector<int>& versions) {
  const ConformanceCommand& command = suite.command;
  nlohmann::json reports = nlohmann::json::array();
  for (int version : versions) reports.push_back(run_table(suite, version));
  if (command.all_tables && command.json != "-") {
    fmt::print("{} tables: {}\n", versions.size(), text_of(suite.counts));
  }
  if (!command.json.empty()) {
    write_output(command.json, (command.all_tables ? reports : reports.front()).dump(2) + "\n");
  }
  return suite.counts[1] == 0 ? kExitOk : kExitFailed;
}

// Returns why no case can run over the plugin: it offers no device, or not that of --dev.
Status find_devices(Plugin& plugin, const ConformanceOptions& options) {
  InitArguments settings;
  settings.logger = &nccl_logger;
  settings.id = options.seed;
  auto context = init_plugin(plugin.net(), settings, "conformance");
  if (!context) return forward_error(context);
  const NetContext ended(&plugin.net(), Finalize{*context});
  auto count = count_devices(plugin.net(), "conformance");
  if (!count) return forward_error(count);
  auto found = find_device(plugin.net(), options.dev);
  return found ? Status{} : forward_error(found);
}

// Starts the plugin once before the cases, since what keeps it from starting would fail every case
// for the same reason, and returns the versions of the table to run. This happens in a process of
// its own, because the plugin must not be loaded where ranks are forked; its state has the
// versions. A plugin that crashes or hangs there does so in a case, too.
Result<std::vector<int>> find_tables(const ConformanceCommand& command) {
  GroupSpec spec = local_group(1);
  spec.patience_seconds = command.options.timeout_seconds;
  auto outcomes = run_group(spec, [&](Rank& rank) {
    auto stop = [&](const Error& error) {
      rank.board().set_report(error.text);
      return error.code == Code::kInvalidUsage ? kExitUsage : kExitCouldNotRun;
    };
    auto plugin = Plugin::load(command.options.plugin, command.options.table);
    if (!plugin) return stop(plugin.error());
    auto versions = command.all_tables ? plugin->tables() : std::vector{plugin->net().version()};
    rank.board().set_state(nlohmann::json(versions).dump());
    Status usable = find_devices(*plugin, command.options);
    return usable ? kExitOk : stop(usable.error());
  });
  if (!outcomes) return forward_error(outcomes);
  const RankOutcome& outcome = outcomes->front();
  if (outcome.report.empty() && outcome.state.starts_with('[')) {
    return nlohmann::json::parse(outcome.state).get<std::vector<int>>();
  }
  return fail(outcome.exit_code == kExitUsage ? Code::kInvalidUsage : Code::kSystem,
              outcome.report.empty() ? describe(outcome) : outcome.report);
}

// The release that the suite's profiler is of: phandles of 2.27 have a layout of their own.
constexpr int kProfilerRelease = 22605;

void run(const ConformanceCommand& command) {
  report_nccl_version(kProfilerRelease);
  auto group = group_of(kMachines, command.root, command.rank);
  if (!group) stop(kExitUsage, group.error().text);
  Suite suite{command, selected(command), {}};
  if (suite.cases.empty()) {
    stop(kExitUsage, fmt::format("no case matches \"{}\"; --list shows them", command.filter));
  }
  if (command.list) {
    for (const ConformanceCase& one : suite.cases) fmt::print("{:<34} {}\n", one.id, one.clause);
    return;
  }
  expect_writable(command.json);
  auto versions = find_tables(command);
  if (!versions) {
    const bool is_option = versions.error().code == Code::kInvalidUsage;
    stop(is_option ? kExitUsage : kExitCouldNotRun, versions.error().text);
  }
  if (!command.root.empty()) {
    if (Status listening = listen_at_root(*group); !listening) {
      stop(kExitCouldNotRun, listening.error().text);
    }
    suite.machines = std::move(*group);
  }
  if (int code = run_all(suite, *versions); code != kExitOk) throw CLI::RuntimeError(code);
}
}  // namespace

void add_conformance_command(CLI::App& app) {
  auto command = std::make_shared<ConformanceCommand>();
  ConformanceOptions& o = command->options;
  CLI::App* suite =
      app.add_subcommand("conformance", "Run the conformance suite on a network plugin's table");
  add_footer(suite, "nccl-gdr with-softhca nccl-gdr conformance --filter 'C2*'",
             usual_statuses("a case failed"));
  suite->add_option("--plugin", o.plugin, "Plugin: a file, or a name as in NCCL_NET_PLUGIN")
      ->capture_default_str();
  auto parse_tables = [command](const std::string& text) -> Result<std::optional<int>> {
    command->all_tables = text == "all";
    if (command->all_tables) return std::optional<int>();
    auto version = parse_table(text);
    if (!version) version.error().text += ", or all";
    return version;
  };
  add_parsed_option(
      suite, "--table", o.table, parse_tables,
      "Version of the plugin's network table; newest: the newest that it exports, as in NCCL; "
      "all: one run for each that it exports")
      ->default_str("newest");
  add_parsed_option(suite, "--dev", o.dev, parse_device,
                    "Device by index; 0+1: the one that the plugin merges of devices 0 and 1")
      ->default_str("0");
  suite->add_flag("--list", command->list, "List the cases and their clauses");
  suite
      ->add_option("--filter", command->filter,
                   "Only cases whose id matches this glob, with bash's extglob: \"@(C0|C24)*\"")
      ->capture_default_str();
  suite->add_option("--seed", o.seed, "Seed of sizes, orders and data")
      ->check(whole_number())
      ->capture_default_str();
  suite->add_option("--timeout", o.timeout_seconds, "Seconds for every wait")
      ->check(positive_number())
      ->capture_default_str();
  suite
      ->add_option("--call-limit", o.call_limit_seconds,
                   "Seconds above which a call of listen, connect or accept counts as blocking")
      ->check(positive_number())
      ->capture_default_str();
  suite
      ->add_option("--peer-death-timeout", o.peer_death_seconds,
                   "Seconds within which a dead peer must become an error")
      ->check(positive_number())
      ->capture_default_str();
  auto* root = suite->add_option(
      "--root", command->root,
      "ADDR:PORT where rank 0 listens, for a run of the cases of two processes over two "
      "machines; start the same command on both with its own --rank");
  suite->add_option("--rank", command->rank, "This machine's rank, with --root: 0 or 1")
      ->needs(root);
  suite->add_option("--json", command->json, "Write the results to this file; -: to stdout alone")
      ->type_name("FILE");
  suite->callback([command] { run(*command); });
}

}  // namespace gdr::tools
