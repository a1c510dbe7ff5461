// Files that hwloc's lstopo wrote.
#pragma once

#include <string>

#include "base/result.h"
#include "topology/model.h"
#include "topology/sources/selection.h"

namespace gdr::topology {

// Reads a file that `lstopo --of xml FILE` of hwloc 1 or 2 wrote on any machine. HCAs are its
// OpenFabrics devices. Such files lack the speed of links and ports. Fails with InvalidArgument;
// the text names the file and the line.
Result<Machine> hwloc_xml(const std::string& file, const Selection& selection = {});

}  // namespace gdr::topology
