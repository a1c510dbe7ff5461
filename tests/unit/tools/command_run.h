// A subcommand of nccl-gdr, from the command line to its output and exit status.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "tools/commands.h"

namespace gdr::tools {

struct Printed {
  int code = 0;
  std::string out;
  std::string err;
};

// Runs `nccl-gdr ARGUMENTS` in this process. The word '' is an empty one.
inline Printed run_command(const std::string& arguments) {
  std::vector<std::string> words = {"nccl-gdr"};
  std::istringstream stream(arguments);
  for (std::string word; stream >> word;) words.push_back(word == "''" ? "" : word);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Printed result;
  result.code = run_command_line(static_cast<int>(argv.size()), argv.data());
  std::fflush(stdout);
  std::fflush(stderr);
  result.out = testing::internal::GetCapturedStdout();
  result.err = testing::internal::GetCapturedStderr();
  return result;
}

}  // namespace gdr::tools
