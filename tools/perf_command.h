// nccl-gdr perf: drives a plugin's table as NCCL's proxy does and measures it.
#pragma once

#include <CLI/CLI.hpp>

namespace gdr::tools {

void add_perf_command(CLI::App& app);

}  // namespace gdr::tools
