// A machine from a file of any format, and which host of it.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "topology/model.h"
#include "topology/sources/selection.h"

namespace gdr::tools::topo {

// Reads the machine of a file (see file_format.h). `host` is as InspectOptions::host. Fails with
// kInvalidUsage where the file does not have that host.
Result<topology::Machine> read_file(const std::string& file, topology::Selection selection,
                                    const std::optional<std::string>& host);

}  // namespace gdr::tools::topo
