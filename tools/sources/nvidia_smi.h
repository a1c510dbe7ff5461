// A machine from the text of `nvidia-smi topo -m`; nvidia_smi_matrix.h describes the text.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "topology/model.h"

namespace gdr::topology {

// Returns a machine in which all devices are as far from each other as the matrix says: devices
// that are PIX share a switch, those that are PXB share a switch above theirs, and so on. Addresses
// are made up, in the domain ffff; Machine::source says so. Unknown are also speeds, links, states
// of ports, and the GPUs' place on PCI where NVLinks hide it. Fails with InvalidArgument where the
// text has no whole matrix, or where its cells contradict each other; the text names the two
// devices.
Result<Machine> nvidia_smi(const std::string& file);

// Reads the text itself; errors name it by `name`.
Result<Machine> nvidia_smi_text(std::string_view text, const std::string& name);

}  // namespace gdr::topology
