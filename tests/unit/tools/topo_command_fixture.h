// The subcommand topo from the command line to its output and exit code.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/fakes/temp_folder.h"
#include "tests/unit/tools/command_run.h"

namespace gdr::tools {

namespace fs = std::filesystem;

class TopoCommand : public ::testing::Test {
 protected:
  static Printed run(const std::string& arguments) { return run_command("topo " + arguments); }

  static std::string known(const std::string& file) {
    return (fs::path(GDR_TOPOLOGIES) / file).string();
  }

  // Writes a file of the tests and returns its name.
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }

  // Copies a known machine, with the first `from` replaced.
  std::string copy(const std::string& name, const std::string& file, const std::string& from = "",
                   const std::string& to = "") const {
    std::string text = read_whole(known(file));
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    if (!from.empty() && at != std::string::npos) text.replace(at, from.size(), to);
    return write(name, text);
  }

  const TempFolder files_;
  const fs::path folder_ = files_.path();
};

inline constexpr char kMachine[] = "nccl-hgx-4nic.xml";

}  // namespace gdr::tools
