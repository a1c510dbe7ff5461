// JSON reports of the subcommands.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"

namespace gdr::tools {

// Writes the value, indented, to the file, or to standard output where `file` is "-".
Status write_json(const std::string& file, const nlohmann::json& value);

}  // namespace gdr::tools
