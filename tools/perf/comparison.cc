#include "tools/perf/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/environment_swap.h"
#include "tools/common/exit_codes.h"
#include "tools/perf/comparison_table.h"
#include "tools/perf/environment.h"
#include "tools/perf/report_file.h"

namespace gdr::tools {
namespace {
using nlohmann::json;

struct SideRun {
  int exit_code = kExitOk;
  json report;  // of exit code 0; wrong data is for the end
};

class Comparison {
 public:
  Comparison(const GroupSpec& spec, PerfMain rank_main, const PerfOptions& options)
      : spec_(spec), rank_main_(rank_main), options_(options) {
    const char* before = std::getenv(options.compare->name.c_str());
    if (before != nullptr) before_ = before;
  }

  int run();

 private:
  bool prints() const { return options_.printed == Printed::kAll; }
  std::string what_differs() const;
  // Both sides, the first one first in every other round: drift over the whole run cancels out.
  int run_round(size_t index);
  SideRun run_side(bool second, bool with_head) const;
  Status conclude() const;

  const GroupSpec& spec_;
  const PerfMain rank_main_;
  const PerfOptions& options_;
  std::optional<std::string> before_;  // the variable's value in our environment
  std::vector<ComparedRound> rounds_;
};

std::string Comparison::what_differs() const {
  std::string already =
      before_ ? fmt::format(", {}={}", options_.compare->name, *before_) : std::string();
  return fmt::format("# first: as it is{}; second: {}", already, options_.compare->text());
}

int Comparison::run() {
  if (prints()) {
    fmt::print("{}\n", what_differs());
    std::fflush(stdout);
  }
  for (size_t i = 0; i < options_.compare_rounds; ++i) {
    if (int code = run_round(i); code != kExitOk) return code;
  }
  if (Status done = conclude(); !done) {
    fmt::print(stderr, "nccl-gdr: {}\n", done.error().text);
    return kExitFailed;
  }
  return verified_in(rounds_).wrong == 0 ? kExitOk : kExitFailed;
}

int Comparison::run_round(size_t index) {
  ComparedRound round;
  bool reversed = index % 2 == 1;
  for (bool second : {reversed, !reversed}) {
    SideRun side = run_side(second, index == 0);
    if (side.exit_code != kExitOk) return side.exit_code;
    (second ? round.second : round.first) = std::move(side.report);
  }
  rounds_.push_back(std::move(round));
  return kExitOk;
}

SideRun Comparison::run_side(bool second, bool with_head) const {
  auto file = ReportFile::create();
  if (!file) {
    fmt::print(stderr, "nccl-gdr: {}\n", file.error().text);
    return {kExitCouldNotRun, {}};
  }
  PerfOptions options = options_;
  options.json = file->name();
  options.printed = prints() && with_head ? Printed::kHead : Printed::kNothing;
  std::optional<ScopedVariable> variable;
  if (second) variable.emplace(options_.compare->name, options_.compare->value);
  int code = run_ranks(spec_, rank_main_, options);
  json report = file->read();
  // Ranks that found wrong data fail, too, but have results.
  bool wrong = report.is_object() && report.at("wrong").get<uint64_t>() > 0;
  if (code == kExitFailed && wrong) code = kExitOk;
  return {code, std::move(report)};
}

Status Comparison::conclude() const {
  ComparedTable table = compare_rounds(rounds_);
  if (prints()) {
    fmt::print("# medians of {} rounds of each; ratio: second / first\n{}\n", rounds_.size(),
               comparison_header(table));
    for (const ComparedRow& row : table.rows) fmt::print("{}\n", format_row(row));
    fmt::print("{}\n", verified_line(rounds_));
    std::fflush(stdout);
  }
  if (options_.json.empty()) return {};
  const std::string& name = options_.compare->name;
  json report = {{"tool", rounds_.front().first.at("tool")},
                 {"compare",
                  {{"first", {{name, before_ ? json(*before_) : json()}}},
                   {"second", {{name, options_.compare->value}}}}},
                 {"medians", to_json(table)}};
  VerifiedTotal total = verified_in(rounds_);
  if (total.messages) report["verified"] = *total.messages;
  report["wrong"] = total.wrong;
  for (const ComparedRound& round : rounds_) {
    report["rounds"].push_back({{"first", round.first}, {"second", round.second}});
  }
  return write_json(options_.json, report);
}
}  // namespace

Status check_comparison(const PerfOptions& options) {
  auto refuse = [](const std::string& why) {
    return fail(Code::kInvalidArgument, "--compare: " + why);
  };
  if (options.osu) return refuse("it prints a table of its own; leave out --osu");
  if (!options.root.empty()) {
    return refuse("the environment of another machine's ranks is not ours; leave out --root");
  }
  bool cuda = std::any_of(options.memory.begin(), options.memory.end(),
                          [](const MemoryPlace& place) { return place.cuda; });
  if (options.compare->name == kGpuMemoryVariable && !cuda) {
    return refuse(fmt::format("{} changes nothing for host memory; add --memory cuda",
                              options.compare->text()));
  }
  return {};
}

int run_comparison(const GroupSpec& spec, PerfMain rank_main, const PerfOptions& options) {
  return Comparison(spec, rank_main, options).run();
}

}  // namespace gdr::tools
