// nccl-gdr conformance: the conformance suite for network plugins.
#pragma once

#include <CLI/CLI.hpp>

namespace gdr::tools {

void add_check_command(CLI::App& app);

}  // namespace gdr::tools
