// Where the parts of nccl-net-gdr lie that belong to the running program: in the build folder that
// it was built in, or in the prefix that it is installed in. A prefix may be moved as a whole,
// since all of these are relative to the program.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace gdr::tools {

// Returns the folder of the running program's file; "." where /proc does not show it.
std::string program_folder();

// Returns the folders of the plugin that belongs to the program: of a build folder and of a prefix.
std::vector<std::string> library_folders(const std::string& program_folder);

// Returns the folders that may hold the software HCA's libibverbs.so.1 for the program, the first
// choice first.
std::vector<std::string> softhca_candidates(const std::string& program_folder);

// Returns the absolute path of the first of these folders that holds one. The error names the
// package that has it.
Result<std::string> find_softhca(const std::string& program_folder);

// Returns what to try where a plugin offers no device, by what the machine under `root` has: on one
// with GPUs the HCA's driver, elsewhere the software HCA, with `command` ("perf sendrecv").
std::string fix_without_device(const std::string& command, const std::string& root = "");

}  // namespace gdr::tools
