// A machine from a file of any format, and which host of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "topology/model.h"
#include "topology/sources/selection.h"

namespace gdr::tools::topo {

// Reads the machine of a file (see file_format.h). `host` is as InspectOptions::host. Fails with
// kInvalidUsage and wrong_host_text() where the file does not have that host.
Result<topology::Machine> read_file(const std::string& file, topology::Selection selection,
                                    const std::optional<std::string>& host);

// Returns the error about a --host that a file does not have; `hosts` are the names of those that
// it has, "" for one without a name: `--host: "7" is not in a.xml. Fix: choose from its hosts:
// 0xabc0, 0xabc1; or a number from 0 to 1`.
std::string wrong_host_text(const std::string& file, const std::string& host,
                            const std::vector<std::string>& hosts);

}  // namespace gdr::tools::topo
