// Files of hardware counters, as sysfs has them, in a folder of their own.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/fakes/temp_folder.h"

namespace gdr::transport {

struct CounterFiles {
  // The ibdev_path of an HCA.
  std::string hca(const std::string& name) const { return root + "/" + name; }
  // The folder of port 1.
  std::filesystem::path port(const std::string& name) const {
    return std::filesystem::path(hca(name)) / "ports" / "1";
  }
  // counter: with its folder, "hw_counters/packet_seq_err".
  void set(const std::string& name, const std::string& counter, const std::string& text) const {
    const std::filesystem::path file = port(name) / counter;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  void set(const std::string& name, const std::string& counter, uint64_t value) const {
    set(name, counter, std::to_string(value));
  }

  const TempFolder folder;
  const std::string root = folder.path();
};

}  // namespace gdr::transport
