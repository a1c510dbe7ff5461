// A machine for the tests of the doctor: files below a folder of its own, and facts set by hand.
#pragma once

#include <filesystem>
#include <fstream>
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

// The worst verdict of a check on the machine.
inline Verdict verdict_of(const Check& check, const Host& host) {
  return CheckResult{check, check.run(host)}.verdict();
}

}  // namespace gdr::tools::doctor
