// Loses rails at seeded points of the protocol, and checks that every message arrives once and
// right. Two processes send to each other over two rails of the software HCA, by the plugin's
// table.
//
//   rail_loss PLUGIN SOFTHCA_FOLDER FAKE_CUDA_FOLDER
//             [--first SEED] [--seeds COUNT | --happened COUNT | --list SEED...] [--keep]
//
// Prints a line for each run that is not as it should be, and two tables of all: what became of the
// runs, and in which phase of the protocol their faults happened. Returns 1 if data was wrong, a
// run hung, an error came where the other rail could carry on, or none where one had to come.
// --keep keeps the logs.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/softhca/rail_loss_run.h"
#include "tests/softhca/rail_loss_table.h"

namespace gdr::rail_loss {
namespace {

struct Settings {
  uint64_t first = 1;
  uint64_t seeds = 40;
  uint64_t happened = 0;       // instead of `seeds`: until the faults of so many runs happened
  std::vector<uint64_t> list;  // instead of both; the faults of each must happen
  bool keep = false;
};

// How often a seed of a list runs until its faults happen: which rail carries the n-th request
// depends on the load of the machine.
constexpr int kTries = 4;

class Runs {
 public:
  Runs(const Settings& settings, const RunArguments& arguments)
      : settings_(settings), arguments_(arguments) {}

  // Returns whether all was as it should be.
  bool run();

 private:
  bool run_seed(uint64_t seed);
  void run_until_happened(uint64_t seed);
  void check_list();

  const Settings& settings_;
  const RunArguments& arguments_;
  Table table_;
  bool right_ = true;
};

// Returns whether all faults happened.
bool Runs::run_seed(uint64_t seed) {
  const Scenario scenario = make_scenario(seed);
  const RunResult result = rail_loss::run(scenario, arguments_);
  table_.add(scenario, result);
  const bool bad = result.wrong || result.hung || result.failed;
  right_ = right_ && !bad;
  if (bad || settings_.keep) {
    fmt::print("{}: {}{}\n  happened: {}; lost {} returned {} stall {:.0f} ms, logs: {} and -1\n",
               bad ? "FAILED" : "passed", to_string(scenario), result.text,
               to_string(result.happened), result.lost, result.returned, result.stall_ms,
               log_file(arguments_, seed, 0));
    std::fflush(stdout);
  } else {
    for (int end = 0; end < 2; ++end) std::filesystem::remove(log_file(arguments_, seed, end));
  }
  return result.all_happened;
}

void Runs::run_until_happened(uint64_t seed) {
  for (int i = 0; i < kTries; ++i) {
    if (run_seed(seed)) return;
  }
  fmt::print("FAILED: the faults of seed {} did not all happen\n", seed);
  right_ = false;
}

void Runs::check_list() {
  const std::string missing = table_.missing();
  if (missing.empty()) return;
  fmt::print("FAILED: did not happen:{}\n", missing);
  right_ = false;
}

bool Runs::run() {
  for (uint64_t seed : settings_.list) run_until_happened(seed);
  if (!settings_.list.empty()) {
    check_list();
  } else if (settings_.happened != 0) {
    uint64_t happened = 0;
    for (uint64_t seed = settings_.first; happened < settings_.happened; ++seed) {
      happened += run_seed(seed);
    }
  } else {
    for (uint64_t i = 0; i < settings_.seeds; ++i) run_seed(settings_.first + i);
  }
  table_.print();
  return right_;
}

int run_main(int count, char** words) {
  const std::vector<std::string> all(words, words + count);
  if (all.size() == 6 && all[1] == "end") {
    return run_end({std::stoull(all[2]), std::stoi(all[3]), all[4], all[5]});
  }
  Settings settings;
  std::string plugin, softhca, fake_cuda;
  CLI::App app{"Loses rails at seeded points of the protocol."};
  app.add_option("plugin", plugin)->required();
  app.add_option("softhca_folder", softhca)->required();
  app.add_option("fake_cuda_folder", fake_cuda)->required();
  app.add_option("--first", settings.first, "first seed");
  app.add_option("--seeds", settings.seeds, "how many seeds");
  app.add_option("--happened", settings.happened, "go on until the faults of so many happened");
  app.add_option("--list", settings.list,
                 "seeds whose faults must happen, of every kind and in every phase");
  app.add_flag("--keep", settings.keep, "keep the logs");
  CLI11_PARSE(app, count, words);
  signal(SIGPIPE, SIG_IGN);
  std::string folder = (std::filesystem::temp_directory_path() / "rail-loss-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 2;
  const RunArguments arguments{
      .program = std::filesystem::read_symlink("/proc/self/exe").string(),
      .plugin = plugin,
      .libraries = softhca,
      .gpu_libraries = softhca + ":" + fake_cuda,
      .folder = folder,
  };
  const bool right = Runs(settings, arguments).run();
  if (right && !settings.keep) std::filesystem::remove_all(folder);
  return right ? 0 : 1;
}

}  // namespace
}  // namespace gdr::rail_loss

int main(int count, char** words) { return gdr::rail_loss::run_main(count, words); }
