// `nccl-gdr topo`: shows GPUs, HCAs, the paths between them, rails, and where GPUDirect is
// possible. docs/topo.md describes options and output.
#pragma once

#include <CLI/CLI.hpp>

namespace gdr::tools {

// Adds the subcommand. It exits with code 2 when an option's value or file cannot be used, and with
// 3 when the machine cannot be read or a file cannot be written.
void add_topo_command(CLI::App& app);

}  // namespace gdr::tools
