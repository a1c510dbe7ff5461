// The text that `nvidia-smi topo -m` prints, as people paste it into tickets:
//
//           GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity    GPU NUMA ID
//   GPU0     X      NV18    PIX     0-47            0                N/A
//   GPU1    NV18     X      SYS     48-95           1                N/A
//   NIC0    PIX     SYS      X
//
//   NIC Legend:
//     NIC0: mlx5_0
//
// Older drivers have the names of NICs in the matrix and no legend of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gdr::topology {

// How far two devices are from each other; kUnknown for a cell with NVLinks, which hide it.
enum class SmiPath { kPix, kPxb, kPhb, kNode, kSys, kUnknown };

std::string to_string(SmiPath path);

struct SmiDevice {
  std::string column;  // "GPU0", "NIC0"
  std::string name;    // "mlx5_0", from the legend where there is one; else as `column`
  bool gpu = false;
  int number = 0;  // of a GPU
  int numa = -1;   // of a GPU, from "NUMA Affinity"; -1: unknown or several
  // Of a GPU on one node, from "CPU Affinity": the CPUs of that node, as in NumaNode::cpus.
  std::string cpus;
  bool coherent = false;  // a GPU whose memory is a NUMA node of its own ("GPU NUMA ID")
};

struct SmiCell {
  SmiPath path = SmiPath::kUnknown;
  int nvlinks = 0;  // 18 for NV18
};

struct SmiMatrix {
  std::vector<SmiDevice> devices;           // in the order of the columns
  std::vector<std::vector<SmiCell>> cells;  // symmetric; the diagonal says nothing
};

// Returns whether the text has the line that names the columns.
bool has_smi_matrix(std::string_view text);

// Parses the text, which may be indented, quoted by '>', underlined (ANSI codes) and surrounded by
// other lines, each behind the name of a node ("node17: "), the first of which counts. Fails with
// InvalidArgument where a row or a cell is missing or cannot be right, or the legend names a NIC
// without a column; the text names the line.
Result<SmiMatrix> parse_smi_matrix(std::string_view text);

}  // namespace gdr::topology
