// `nccl-gdr topo`: GPUs, HCAs and what lies between them; rails, and where GPUDirect is possible.
#pragma once

#include <CLI/CLI.hpp>

namespace gdr::tools {

// Exit code 2 when an option's value or file cannot be used, 3 when the machine cannot be read or a
// file not be written.
void add_topo_command(CLI::App& app);

}  // namespace gdr::tools
