#include "tests/softhca/rail_loss_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>

#include "tests/softhca/rail_loss_process.h"

namespace gdr::rail_loss {
namespace {

using nlohmann::json;

// The connections of which an end reports errors.
std::set<int> failed_connections(const json& answer) {
  std::set<int> connections;
  for (const json& error : answer["errors"]) connections.insert(error[0].get<int>());
  return connections;
}

class Run {
 public:
  Run(const Scenario& scenario, const RunArguments& arguments)
      : scenario_(scenario),
        arguments_(arguments),
        ends_{{{scenario, 0, arguments}, {scenario, 1, arguments}}} {}

  RunResult run();

 private:
  bool exchange_handles();
  bool ask(const char* word, std::array<json, 2>* answers);
  void drive();
  void read_logs();
  // Whether the faults that happened may end connections.
  bool may_fail() const;
  // Whether a warning of an end has a reason why its connection had to end.
  bool has_reason(const json& done) const;
  void judge_done(int end);
  void judge_errors(int end);
  void judge_failure();
  void judge_closed(int end);
  void add(int end, const std::string& text);

  const Scenario& scenario_;
  const RunArguments& arguments_;
  std::array<Process, 2> ends_;
  std::array<json, 2> done_, closed_;
  RunResult result_;
};

void Run::add(int end, const std::string& text) {
  result_.text += fmt::format("\n  end {}: {}", end, text);
}

bool Run::exchange_handles() {
  std::array<std::optional<std::string>, 2> handles;
  for (size_t end = 0; end < 2; ++end) handles[end] = ends_[end].answer("handle");
  for (int end = 0; end < 2; ++end) {
    if (handles[static_cast<size_t>(end)]) continue;
    add(end, "it cannot listen");
    result_.failed = true;
  }
  if (result_.failed) return false;
  for (size_t end = 0; end < 2; ++end) ends_[end].write_line("peer " + *handles[1 - end]);
  return true;
}

bool Run::ask(const char* word, std::array<json, 2>* answers) {
  bool answered = true;
  for (int end = 0; end < 2; ++end) {
    Process& process = ends_[static_cast<size_t>(end)];
    const auto line = process.answer(word);
    json& answer = (*answers)[static_cast<size_t>(end)];
    answer = line ? json::parse(*line, nullptr, false) : json();
    if (answer.is_object()) continue;
    answered = false;
    const bool ended = process.end() == "it has ended";
    (ended ? result_.failed : result_.hung) = true;
    add(end, process.end().empty() ? "its answer makes no sense" : process.end());
  }
  return answered;
}

// The second loss of a pair of faults is one too many only where the first had not happened before
// the pause between them.
bool Run::may_fail() const {
  if (scenario_.expect == Expect::kCompletes || !result_.all_happened) return false;
  const auto is_late = [](const HappenedFault& fault) { return fault.after_pause; };
  return !scenario_.pauses || std::ranges::all_of(result_.happened, is_late);
}

bool Run::has_reason(const json& done) const {
  for (const std::string warning : done["warnings"]) {
    const auto is_in = [&](const std::string& reason) {
      return warning.find(reason) != std::string::npos;
    };
    if (std::ranges::any_of(scenario_.reasons, is_in)) return true;
  }
  return false;
}

void Run::judge_done(int end) {
  const json& done = done_[static_cast<size_t>(end)];
  result_.stall_ms = std::max(result_.stall_ms, done["stall_ms"].get<double>());
  if (done["wrong"] != "") {
    result_.wrong = true;
    add(end, done["wrong"]);
  }
  if (done["hung"] != "") {
    result_.hung = true;
    add(end, "hangs: " + done["hung"].get<std::string>());
  }
  if (!done["errors"].empty()) judge_errors(end);
}

void Run::judge_errors(int end) {
  const json& done = done_[static_cast<size_t>(end)];
  const bool expected = may_fail() && has_reason(done);
  (expected ? result_.error : result_.failed) = true;
  add(end, fmt::format("{} {}: {}", expected ? "error" : "error that must not be",
                       done["errors"].dump(), done["warnings"].dump()));
}

// The request that fails belongs to one connection. Both ends of that report it; but at a flush the
// sender's part may be over.
void Run::judge_failure() {
  const auto first = failed_connections(done_[0]), second = failed_connections(done_[1]);
  std::set<int> either = first;
  either.insert(second.begin(), second.end());
  const bool at_both = !first.empty() && !second.empty();
  const bool at_flush = result_.happened[0].phase == Phase::kFlush;
  if (either.size() == 1 && (at_both || at_flush)) return;
  result_.failed = true;
  result_.text += fmt::format("\n  errors of {} connection(s), at end 0: {}, at end 1: {}",
                              either.size(), !first.empty(), !second.empty());
}

void Run::judge_closed(int end) {
  const json& closed = closed_[static_cast<size_t>(end)];
  result_.lost += closed["lost"].get<int>();
  result_.returned += closed["returned"].get<int>();
  if (closed["wrong"] == "") return;
  result_.wrong = true;
  add(end, closed["wrong"]);
}

void Run::read_logs() {
  for (int end = 0; end < 2; ++end) {
    for (HappenedFault& fault : read_happened(log_file(arguments_, scenario_.seed, end))) {
      result_.happened.push_back(std::move(fault));
    }
  }
  result_.all_happened = result_.happened.size() == scenario_.faults.size();
}

void Run::drive() {
  if (!exchange_handles() || !ask("done", &done_)) return;
  for (Process& end : ends_) end.write_line("close");
  const bool closed = ask("closed", &closed_);
  read_logs();
  for (int end = 0; end < 2; ++end) judge_done(end);
  if (scenario_.expect == Expect::kFails && result_.all_happened) judge_failure();
  for (int end = 0; closed && end < 2; ++end) judge_closed(end);
}

RunResult Run::run() {
  drive();
  if (result_.happened.empty()) read_logs();
  return result_;
}

}  // namespace

std::string log_file(const RunArguments& arguments, uint64_t seed, int end) {
  return fmt::format("{}/{}-{}.log", arguments.folder, seed, end);
}

RunResult run(const Scenario& scenario, const RunArguments& arguments) {
  for (int end = 0; end < 2; ++end) {
    std::filesystem::remove(faults_file(arguments, scenario.seed, end));
  }
  return Run(scenario, arguments).run();
}

}  // namespace gdr::rail_loss
