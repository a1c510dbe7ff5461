// `nccl-gdr env`: the environment variables that the plugin reads, with the values in force.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "plugin/config/load.h"

namespace gdr::tools {

// Adds the subcommand. It exits with 1 where a value is rejected or a GDR_NCCL_* variable does not
// exist.
void add_env_command(CLI::App& app);

// Returns each variable with its value, state and documentation; a line that starts with "!" is a
// finding about it.
std::string env_text(const config::Description& description);
// Returns an object: "variables", one object for each variable, and "unknown", a list of findings.
// Bytes of values that are not UTF-8 are replaced.
std::string env_json(const config::Description& description);

}  // namespace gdr::tools
