// `nccl-gdr env`: the plugin's environment variables, and what this environment makes of them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "plugin/config/load.h"

namespace gdr::tools {

// Exit code 1 when a value is rejected or a GDR_NCCL_* name is unknown.
void add_env_command(CLI::App& app);

std::string env_text(const config::Description& description);
std::string env_json(const config::Description& description);

}  // namespace gdr::tools
