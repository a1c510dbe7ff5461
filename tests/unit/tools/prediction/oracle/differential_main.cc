// Compares nccl::Prediction with the oracle on random machines, or on one file.
//
//   nccl_differential --machines 10000 --seed 1 --nccl-version 2.28.9,2.30.7
//   nccl_differential --dump 42 > machine.xml
//   nccl_differential --file machine.xml [--settings-of 42]
//   nccl_differential --print machine.xml --nccl-version 2.28.9
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/unit/tools/prediction/oracle/differential.h"
#include "tests/unit/tools/prediction/oracle/nccl_rules.h"
#include "tests/unit/tools/prediction/oracle/random_machine.h"

namespace {

namespace oracle = gdr::topology::oracle;
using gdr::topology::nccl::Release;
using gdr::topology::nccl::Settings;

constexpr size_t kShownDifferences = 6;  // of one machine

struct Options {
  uint64_t machines = 1000;
  uint64_t seed = 1;
  std::vector<std::string> versions = {"2.28.9", "2.30.7"};
  std::string file, print, to;
  int64_t dump = -1;
  int64_t settings_of = -1;
};

struct Count {
  uint64_t compared = 0, left_out = 0, different = 0;
};

std::string read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

std::string settings_text(const Settings& settings) {
  const std::vector<std::string> names = oracle::environment_of(settings);
  return names.empty() ? std::string("default settings") : fmt::format("{}", fmt::join(names, " "));
}

void compare(const std::string& text, const Settings& settings, const std::string& name,
             const std::string& again, Count* count) {
  const oracle::Comparison result = oracle::compare(text, settings);
  ++(result.compared ? count->compared : count->left_out);
  if (!result.compared) fmt::print("{}: left out: {}\n", name, result.left_out);
  if (result.differences.empty()) return;
  ++count->different;
  fmt::print("{}, NCCL {}, {}: {} differences; again: {}\n", name, settings.release.to_string(),
             settings_text(settings), result.differences.size(), again);
  for (size_t shown = 0; shown < std::min(kShownDifferences, result.differences.size()); ++shown) {
    fmt::print("  {}\n", result.differences[shown]);
  }
}

void compare_seed(uint64_t seed, const Release& release, const Options& options, Count* count) {
  const oracle::RandomMachine machine = oracle::random_machine(seed);
  Settings settings = oracle::random_settings(seed);
  settings.release = release;
  if (machine.partitions && release < Release{2, 30, 5}) return;
  if (!options.to.empty()) {
    const std::filesystem::path folder = options.to;
    write(folder / fmt::format("{}.xml", seed), machine.xml);
    write(folder / fmt::format("{}.env", seed),
          fmt::format("{}", fmt::join(oracle::environment_of(settings), "\n")));
    write(folder / fmt::format("{}.{}.json", seed, release.to_string()),
          oracle::to_json(oracle::ask(machine.xml, settings)));
    return;
  }
  compare(machine.xml, settings, fmt::format("seed {}", seed),
          fmt::format("--seed {} --machines 1 --nccl-version {}", seed, release.to_string()),
          count);
}

int run(const Options& options, const std::vector<Release>& releases) {
  if (options.dump >= 0) {
    fmt::print("{}", oracle::random_machine(static_cast<uint64_t>(options.dump)).xml);
    return 0;
  }
  Settings settings;
  if (options.settings_of >= 0) {
    settings = oracle::random_settings(static_cast<uint64_t>(options.settings_of));
  }
  int worst = 0;
  for (const Release& release : releases) {
    settings.release = release;
    Count count;
    if (!options.print.empty()) {
      fmt::print("{}", oracle::to_json(oracle::ask(read(options.print), settings)));
      continue;
    }
    if (!options.file.empty()) {
      compare(read(options.file), settings, options.file, "the same command", &count);
    } else {
      for (uint64_t offset = 0; offset < options.machines; ++offset) {
        compare_seed(options.seed + offset, release, options, &count);
      }
    }
    fmt::print("NCCL {}: {} machines compared, {} left out, {} with differences; seeds {} to {}\n",
               release.to_string(), count.compared, count.left_out, count.different, options.seed,
               options.seed + options.machines - 1);
    if (count.different > 0) worst = 1;
  }
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Compares the prediction of NCCL's choices with an independent oracle.");
  app.add_option("--machines", options.machines, "how many random machines");
  app.add_option("--seed", options.seed, "the first seed");
  app.add_option("--nccl-version", options.versions, "releases of NCCL")->delimiter(',');
  app.add_option("--file", options.file, "compare on this file instead");
  app.add_option("--print", options.print, "print the oracle's answer for this file");
  app.add_option("--dump", options.dump, "print the machine of a seed");
  app.add_option("--settings-of", options.settings_of, "with the settings of this seed");
  app.add_option("--to", options.to, "write machines and the oracle's answers to this folder");
  CLI11_PARSE(app, argc, argv);
  std::vector<Release> releases;
  for (const std::string& version : options.versions) {
    const auto release = Release::parse(version);
    if (!release) {
      fmt::print(stderr, "--nccl-version {}: {}\n", version, release.error().text);
      return 2;
    }
    releases.push_back(*release);
  }
  return run(options, releases);
}
