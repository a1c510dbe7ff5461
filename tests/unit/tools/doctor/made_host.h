// A machine for the tests of the doctor: files below a folder of its own, and facts set by hand.
#pragma once

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "tests/fakes/temp_folder.h"
#include "tools/doctor/check.h"
#include "tools/doctor/host.h"
#include "tools/doctor/report.h"

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

  Host host;

 private:
  TempFolder folder_;
};

// What a check sees on a machine with a whole topology, which is judged before.
inline Observations seen_by(const Check& check, Host host) {
  judge_topology(&host);
  return check.run(host);
}

// The worst verdict of a check on the machine.
inline Verdict verdict_of(const Check& check, const Host& host) {
  return CheckResult{check, check.run(host)}.verdict();
}

// The first observation that is as bad as the check's verdict.
inline Observation worst_of(const Check& check, const Host& host) {
  const CheckResult result{check, seen_by(check, host)};
  for (const Observation& one : result.observations) {
    if (one.verdict == result.verdict()) return one;
  }
  return {};
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
};

template <class Made>
void expect_worst(const Check& check, const std::vector<CheckCase<Made>>& cases) {
  for (const CheckCase<Made>& one : cases) {
    Made made;
    one.change(&made);
    const Observation seen = worst_of(check, made.host);
    EXPECT_EQ(seen.verdict, one.verdict) << one.name;
    EXPECT_THAT(seen.subject, ::testing::HasSubstr(one.subject)) << one.name;
    EXPECT_THAT(seen.evidence, ::testing::HasSubstr(one.evidence)) << one.name;
    EXPECT_THAT(seen.fix, ::testing::HasSubstr(one.fix)) << one.name;
  }
}

}  // namespace gdr::tools::doctor
