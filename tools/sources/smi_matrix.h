// The matrices in a text of `nvidia-smi topo -m`, and what they say; nvidia_smi.h has an example.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace gdr::topology::smi {

constexpr size_t kMaxDevices = 128;  // of one kind

// How far two devices are from each other: at most a PCIe switch, several, a host bridge, a NUMA
// node, or more than that.
enum Level : size_t { kPix, kPxb, kPhb, kNode, kSys };
constexpr std::array<std::pair<std::string_view, Level>, 6> kLevels = {{
    {"PIX", kPix},
    {"PXB", kPxb},
    {"PHB", kPhb},
    {"NODE", kNode},
    {"SYS", kSys},
    {"SOC", kSys},  // the word of older drivers
}};

struct Cell {
  std::optional<Level> level = {};  // NVLinks hide it
  int nvlinks = 0;                  // 18 for NV18
  bool operator==(const Cell&) const = default;
};

struct Device {
  std::string column;         // "GPU0", "NIC0"
  std::string name;           // "mlx5_0", from the legend where there is one; else as `column`
  std::optional<int> number;  // of a GPU
  int numa = -1;              // of a GPU, from "NUMA Affinity"; -1: unknown or several
  std::string cpus;           // of a GPU on one node, from "CPU Affinity", as in NumaNode::cpus
  bool coherent = false;      // a GPU whose memory is a NUMA node of its own ("GPU NUMA ID")
};

struct Matrix {
  std::vector<Device> devices;                      // in the order of the columns
  std::map<std::pair<size_t, size_t>, Cell> cells;  // by row and column, which differ
  bool nvlinks_known = false;  // whether devices that no cell connects by NVLinks have none
  std::string source_fault;    // which devices are not shown: "it shows 56 of 76 NICs"
  const Cell& at(size_t i, size_t j) const { return cells.at({std::min(i, j), std::max(i, j)}); }
};

// Returns the decimal number that follows `prefix` and ends the text; nothing for other text.
std::optional<int> number_after(std::string_view prefix, std::string_view text);

struct Line {
  int number = 0;  // in the text, from 1
  std::vector<std::string> words;
};

// The lines of one matrix, from the one that names the columns to the next matrix.
struct Lines {
  enum class Rows { kNone, kOfTopology, kOther };
  std::vector<Line> lines;
  std::string title;              // what stands in front of the columns, and perhaps of the rows
  std::string source_fault = {};  // as in Matrix
  Rows rows = Rows::kNone;        // kOther: `topo -p2p` or another program made it
};

// Returns the matrices of a text in the order in which they begin, without those of `topo -p2p` and
// of other programs. Lines may be quoted, framed and in a Markdown table.
std::vector<Lines> matrices_in(std::string_view text);

// Reads one of them; fails as nvidia_smi() does.
Result<Matrix> parse(const Lines& lines);

}  // namespace gdr::topology::smi
