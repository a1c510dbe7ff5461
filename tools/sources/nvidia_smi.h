// A machine from the text that `nvidia-smi topo -m` prints, as people paste it into tickets:
//
//           GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity    GPU NUMA ID
//   GPU0     X      NV18    PIX     0-47            0                N/A
//   GPU1    NV18     X      SYS     48-95           1                N/A
//   NIC0    PIX     SYS      X
//
//   NIC Legend:
//     NIC0: mlx5_0
//
// Older drivers have the names of NICs in the matrix and no legend of them. The text may be
// underlined (ANSI codes), quoted, framed and surrounded by other lines (smi_matrix.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "topology/model.h"

namespace gdr::topology {

// Returns whether the text has the line that names the columns, and not only above the rows of
// `topo -p2p` or of another program.
bool has_smi_matrix(std::string_view text);

// Returns a machine in which all devices are as far from each other as the matrix says: devices
// that are PIX share a switch, those that are PXB share a switch above theirs, and so on. Addresses
// are made up, in the domain ffff; Machine::source says so. Unknown are also speeds, links,
// states of ports, NUMA nodes without a number, NVLinks of `topo -mp`, and the GPUs' place on PCI
// where NVLinks hide it. Fails with InvalidArgument where there are several matrices, a row or a
// cell is missing or cannot be right, lines are broken, the legend or a row names a device without
// a column, or cells contradict each other; the error names the text by `name`, and the line or the
// two devices.
Result<Machine> nvidia_smi(std::string_view text, const std::string& name);

}  // namespace gdr::topology
