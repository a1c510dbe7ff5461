#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <memory>

#include "plugin/abi/nccl_types.h"
#include "tools/commands.h"
#include "tools/common/output.h"
#include "tools/common/sizes.h"
#include "tools/net/plugin_loader.h"
#include "tools/perf/options.h"
#include "tools/ranks/rank_group.h"

namespace gdr::tools {
namespace {
constexpr size_t kMostIterations = 1'000'000'000;

// Reads a size as CLI::AsSizeValue does, which throws texts that list 23 units.
CLI::Validator size_value() {
  auto read = [](std::string& text) {
    const std::string given = text;
    try {
      if (!given.starts_with('-')) return CLI::AsSizeValue(false)(text);
    } catch (const CLI::ValidationError&) {
    }
    return given + " is not a size: give a number of bytes, or one with the suffix K, M or G";
  };
  return CLI::Validator(read, "SIZE");
}

void add_size(CLI::App* command, const std::string& name, size_t& value, const std::string& text) {
  command->add_option(name, value, text)->transform(size_value())->capture_default_str();
}

// Adds an option that takes a whole number of that range.
CLI::Option* add_number(CLI::App* command, const std::string& name, size_t& value,
                        std::pair<size_t, size_t> range, const std::string& text) {
  return command->add_option(name, value, text)
      ->check(CLI::Range(range.first, range.second))
      ->capture_default_str();
}

void add_device_option(CLI::App* command, PerfOptions& o) {
  auto take = [&o](const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      auto named = parse_device(name);
      if (!named) throw CLI::ValidationError("--dev: " + named.error().text);
      o.devices.push_back(*named);
    }
  };
  command
      ->add_option_function<std::vector<std::string>>(
          "--dev", take,
          "Devices by index, 0+1 for the one that the plugin merges of 0 and 1; rank r uses entry "
          "r "
          "mod their count")
      ->delimiter(',');
}

void add_common_options(CLI::App* command, PerfOptions& o) {
  command->add_option("--plugin", o.plugin, "Plugin: a file, or a name as in NCCL_NET_PLUGIN")
      ->capture_default_str();
  add_parsed_option(
      command, "--table", o.table, parse_table,
      "Version of the plugin's network table; newest: the newest that it exports, as in NCCL")
      ->default_str("newest");
  add_device_option(command, o);
  add_size(command, "-b,--begin", o.begin, "Smallest size in bytes; suffixes K, M and G");
  add_size(command, "-e,--end", o.end, "Largest size in bytes");
  add_number(command, "-f,--factor", o.factor, {2, 1u << 30}, "Factor between sizes");
  add_number(command, "-n,--iters", o.iterations, {0, kMostIterations},
             "Iterations per size; 0: depends on the size");
  add_number(command, "-w,--warmup", o.warmup, {0, kMostIterations},
             "Iterations before each measurement");
  add_number(command, "--depth", o.depth, {1, abi::kMaxRequests},
             "Requests in flight on a connection");
  command->add_flag("--check,!--no-check", o.check, "Verify data (outside the measurements)");
  command->add_option("--seed", o.seed, "Seed of the verified data")
      ->check(whole_number())
      ->capture_default_str();
  command
      ->add_option("--timeout", o.timeout_seconds,
                   "Seconds without progress after which a run is reported as hung")
      ->check(positive_number())
      ->capture_default_str();
  command->add_option("--json", o.json, "Also write the results to this file; -: to stdout alone")
      ->type_name("FILE");
  add_parsed_option(command, "--memory", o.memory, parse_memory_specs,
                    "Memory of the data: host, cuda (device: rank mod their count) or cuda:N; two "
                    "with a comma: one per side")
      ->default_str("host");
  auto* root = command->add_option(
      "--root", o.root,
      "ADDR:PORT where rank 0 listens, for a run over several machines; start the "
      "same command on each with its own --rank");
  command->add_option("--rank", o.rank, "This process's rank, with --root")->needs(root);
}

Status check_options(const PerfOptions& o) {
  auto sizes = size_sweep(o.begin, o.end, o.factor);
  if (!sizes) return forward_error(sizes);
  if (o.end > abi::kMaxNetBytes) return fail(Code::kInvalidArgument, "--end: at most 1T");
  if (o.iterations > kMostSamples && o.test != "bw" && o.command == "perf sendrecv") {
    return fail(Code::kInvalidArgument,
                fmt::format("--iters: at most {}, since --test lat keeps the time of each. Fix: "
                            "add --test bw",
                            kMostSamples));
  }
  if (o.group > 1 && o.test != "bw") {
    return fail(Code::kInvalidArgument, "--group: only with --test bw. Fix: add --test bw");
  }
  return {};
}

// Prints the failures, the most likely cause first, and returns the exit code of the run: the
// highest of its ranks. Ranks that report the same text, as after a wrong option, are printed once.
int conclude(const std::vector<RankOutcome>& outcomes) {
  int code = kExitOk;
  std::string last;
  for (const RankOutcome& outcome : causes(outcomes)) {
    // Nobody reads the output any more, as behind `| head`: the run ends as rank 0 did.
    if (outcome.end == RankOutcome::End::kKilled && outcome.signal == SIGPIPE) raise(SIGPIPE);
    bool silent = outcome.end == RankOutcome::End::kExited && outcome.report.empty() &&
                  outcome.exit_code == kExitFailed;  // wrong data, which the table shows
    bool repeats = !outcome.report.empty() && outcome.report == last;
    if (!silent && !repeats) print_error(describe(outcome));
    last = outcome.report;
    int code_of_rank = outcome.end == RankOutcome::End::kExited ? outcome.exit_code : kExitFailed;
    code = std::max(code, code_of_rank);
  }
  return code;
}

void run(PerfOptions& options, Benchmark benchmark) {
  if (Status usable = check_options(options); !usable) stop(kExitUsage, usable.error().text);
  auto spec = group_of(options.ranks, options.root, options.rank);
  if (!spec) stop(kExitUsage, spec.error().text);
  spec->patience_seconds = options.timeout_seconds;
  spec->shows_progress = true;
  options.quiet = options.json == "-";
  if (options.root.empty() || options.rank == 0) expect_writable(options.json);
  auto outcomes = run_group(*spec, [&](Rank& rank) { return benchmark(rank, options); });
  if (!outcomes) stop(kExitCouldNotRun, outcomes.error().text);
  if (int code = conclude(*outcomes); code != kExitOk) throw CLI::RuntimeError(code);
}

// Rejects CUDA memory: without a kernel that adds, an all-reduce over GPU memory would measure
// copies to the host.
void reject_cuda(const PerfOptions& o) {
  bool cuda = std::any_of(o.memory.begin(), o.memory.end(), [](auto& spec) { return spec.cuda; });
  if (!cuda) return;
  stop(
      kExitUsage,
      "--memory cuda: all_reduce adds on the CPU, so its data is in host memory; for GPU memory "
      "run "
      "all_reduce_perf of nccl-tests (nccl-tests-config/compare), or perf sendrecv for the network "
      "alone");
}

std::string statuses() { return usual_statuses("data was wrong, or a rank failed"); }

void add_sendrecv(CLI::App* perf) {
  auto options = std::make_shared<PerfOptions>();
  CLI::App* command =
      perf->add_subcommand("sendrecv", "Bandwidth and latency between two ranks, like perftest");
  add_footer(command, "nccl-gdr perf sendrecv --dev 0,1 --memory cuda -b 64K -e 64M", statuses());
  add_common_options(command, *options);
  command->get_option("--depth")->description(
      "Requests in flight on a connection; in the latency test, receives posted ahead: with 1, "
      "every message waits for its clear-to-send");
  command
      ->add_option(
          "--seconds", options->seconds,
          "Measure each size for about so many seconds, instead of by a number of iterations")
      ->check(positive_number())
      ->excludes("--iters");
  command->add_option("--test", options->test, "What to measure")
      ->check(CLI::IsMember({"bw", "lat", "both"}))
      ->capture_default_str();
  command->add_option("--ranks,--nranks", options->ranks, "Number of ranks: always two")
      ->check(CLI::Range(2, 2));
  add_number(command, "--group", options->group, {1, abi::kMaxRecvs},
             "Messages of one receive, with --test bw: as many send at a time, each with its own "
             "tag, and --depth counts receives");
  command->callback([options] { run(*options, &run_sendrecv); });
}

void add_all_reduce(CLI::App* perf) {
  auto options = std::make_shared<PerfOptions>();
  options->command = "perf all_reduce";
  options->ranks = 4;
  CLI::App* command =
      perf->add_subcommand("all_reduce", "Ring all-reduce over N ranks, like all_reduce_perf");
  add_footer(command, "nccl-gdr with-softhca nccl-gdr perf all_reduce --ranks 4 -b 8 -e 64M",
             statuses());
  add_common_options(command, *options);
  command->get_option("--memory")->description("Memory of the data: host alone");
  command->add_option("--ranks,--nranks", options->ranks, "Number of ranks")
      ->check(CLI::Range(2, 1024))
      ->capture_default_str();
  add_number(command, "--channels", options->channels, {1, 64},
             "Rings, each with its own connections");
  command
      ->add_option("--rails", options->rails,
                   "Devices by index; channel c of every rank uses entry c mod their count, as "
                   "NCCL does on several rails")
      ->check(whole_number())
      ->delimiter(',');
  command->add_option("--slice", options->slice, "Largest message in bytes")
      ->transform(size_value())
      ->check(CLI::Range(size_t{128}, size_t{64} << 20))
      ->capture_default_str();
  command
      ->add_option("--until", options->until,
                   "Repeat all sizes until this file exists for any rank, and verify every "
                   "all-reduce, as when a cable is pulled meanwhile")
      ->type_name("FILE");
  command->callback([options] {
    reject_cuda(*options);
    run(*options, &run_all_reduce);
  });
}
}  // namespace

void add_perf_command(CLI::App& app) {
  CLI::App* perf = app.add_subcommand("perf", "Measure a network plugin through its table");
  add_footer(perf, "nccl-gdr with-softhca nccl-gdr perf sendrecv", statuses());
  perf->require_subcommand(1);
  add_sendrecv(perf);
  add_all_reduce(perf);
}

}  // namespace gdr::tools
