// A machine for the tests of the doctor: files below a folder of its own, and facts set by hand.
#pragma once

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/fakes/temp_folder.h"
#include "tests/unit/topology/machines.h"
#include "tools/doctor/checks/checks.h"
#include "tools/doctor/report/report.h"
#include "tools/doctor/topology.h"

namespace gdr::tools::doctor {

class MadeHost {
 public:
  MadeHost() {
    host.root = folder_.path();
    host.is_live = false;
    // Without it nothing is known of devices: nothing_on().
    std::filesystem::create_directories(host.path("/sys/class"));
  }

  // Writes a file of the machine: write("/proc/modules", "nvidia 1 0 - Live 0x0\n").
  void write(const std::string& absolute, const std::string& text) {
    const std::filesystem::path file = host.path(absolute);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }
  // Makes a symbolic link to another path of the machine.
  void link(const std::string& absolute, const std::string& target) {
    const std::filesystem::path file = host.path(absolute);
    std::filesystem::create_directories(file.parent_path());
    std::filesystem::create_directories(host.path(target));
    std::filesystem::create_symlink(host.path(target), file);
  }
  void write_files(const std::map<std::string, std::string>& files) {
    for (const auto& [absolute, text] : files) write(absolute, text);
  }
  // Gives the machine a topology of that many GPUs and an HCA.
  void add_gpus(int gpus) {
    host.inspection.emplace();
    host.inspection->decision = topology::scene_of(topology::flat(gpus, 1));
  }

  Host host;

 private:
  TempFolder folder_;
};

// A change of a machine for CheckCase: its files.
inline auto with_files(std::map<std::string, std::string> files) {
  return [files](MadeHost* made) { made->write_files(files); };
}

// What a check sees on the machine, whose topology is judged before.
inline Observations seen_by(const char* check, Host host) {
  judge_topology(&host);
  return run_check(check_named(check), host);
}

// The first observation that is as bad as the check's verdict.
inline Observation worst_of(const char* check, const Host& host) {
  const CheckResult result{check_named(check), seen_by(check, host)};
  for (const Observation& one : result.observations) {
    if (one.verdict == result.verdict()) return one;
  }
  return {};
}

// The commands of an observation, in lines of their own.
inline std::string steps_of(const Observation& one) {
  std::string text;
  for (const std::string& command : one.steps) text += (text.empty() ? "" : "\n") + command;
  return text;
}

// A machine, and parts of what a check says of it at worst.
template <class Made>
struct CheckCase {
  const char* name;
  std::function<void(Made*)> change;
  Verdict verdict;
  std::string subject = {};
  std::string evidence = {};
  std::string fix = {};
  std::optional<std::string> steps = {};  // as of steps_of(), exactly
};

template <class Made>
void expect_worst(const char* check, const std::vector<CheckCase<Made>>& cases) {
  for (const CheckCase<Made>& one : cases) {
    Made made;
    one.change(&made);
    const Observation seen = worst_of(check, made.host);
    EXPECT_EQ(seen.verdict, one.verdict) << one.name;
    EXPECT_THAT(seen.subject, ::testing::HasSubstr(one.subject)) << one.name;
    EXPECT_THAT(seen.evidence, ::testing::HasSubstr(one.evidence)) << one.name;
    EXPECT_THAT(seen.fix + seen.needs, ::testing::HasSubstr(one.fix)) << one.name;
    EXPECT_EQ(steps_of(seen), one.steps.value_or(steps_of(seen))) << one.name;
  }
}

}  // namespace gdr::tools::doctor
