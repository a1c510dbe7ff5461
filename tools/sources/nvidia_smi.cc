#include "tools/sources/nvidia_smi.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "topology/cpu_mask.h"
#include "topology/sources/nvlinks.h"
#include "topology/sources/selection.h"

namespace gdr::topology {
namespace {

constexpr uint32_t kMadeUp = 0xffff;    // the domain of all addresses
constexpr size_t kMaxText = 1 << 20;    // bytes
constexpr size_t kMaxDevices = 128;     // of one kind, and so many addresses are made up
constexpr int kMostNvLinksOfAGpu = 18;  // of Hopper and Blackwell; earlier GPUs have fewer

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
  const Cell& at(size_t i, size_t j) const { return cells.at({std::min(i, j), std::max(i, j)}); }
};

using Words = std::vector<std::string_view>;

// Returns the decimal number that follows `prefix` and ends the text; nothing for other text.
std::optional<int> number_after(std::string_view prefix, std::string_view text) {
  if (!text.starts_with(prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  int number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size() && number >= 0;
  return whole ? std::optional<int>(number) : std::nullopt;
}

// Returns the words of each line, without quotation marks and escape sequences such as "\x1b[4m",
// which underlines the first line.
std::vector<Words> lines_of(std::string* text) {
  for (size_t escape = 0; (escape = text->find('\x1b', escape)) != std::string::npos;) {
    const size_t end = text->find_first_of("ABCDEFGHJKmsu\n", escape);
    text->erase(escape, end == std::string::npos ? end : end - escape + ((*text)[end] != '\n'));
  }
  std::vector<Words> lines(1);
  for (size_t at = 0; at < text->size();) {
    if ((*text)[at] == '\n') lines.emplace_back();
    const std::string_view blanks(" \t\r\n|>\0", 7);
    if (blanks.find((*text)[at]) != std::string_view::npos) {
      ++at;
      continue;
    }
    const size_t end = std::min(text->find_first_of(blanks, at), text->size());
    lines.back().push_back(std::string_view(*text).substr(at, end - at));
    at = end;
  }
  return lines;
}

std::optional<Cell> cell_of(std::string_view word) {
  for (const auto& [name, level] : kLevels) {
    if (word == name) return Cell{level, 0};
  }
  if (auto links = number_after("NV", word); links && *links > 0) return Cell{{}, *links};
  return word == "X" ? std::optional<Cell>(Cell{}) : std::nullopt;
}

// The line that names the columns begins with a GPU and has no cells.
bool is_header(const Words& words) {
  return !words.empty() && number_after("GPU", words[0]) &&
         std::none_of(words.begin(), words.end(), [](auto word) { return cell_of(word); }) &&
         (words.size() == 1 || number_after("GPU", words[1]) || words[1] == "CPU" ||
          std::isdigit(static_cast<unsigned char>(words[1].back())) != 0);
}

class Parser {
 public:
  Result<Matrix> parse(std::string text) {
    for (const Words& words : lines_of(&text)) {
      ++line_;
      Status status;
      if (!matrix_.devices.empty()) {
        status = read_row(words);
        if (status) status = read_legend(words);
      } else if (is_header(words)) {
        status = read_header(words);
      }
      if (!status) return forward_error(status);
    }
    if (matrix_.devices.empty()) {
      return fail(Code::kInvalidArgument, "no line names the columns GPU0, GPU1 and so on");
    }
    if (Status complete = check_complete(); !complete) return forward_error(complete);
    return std::move(matrix_);
  }

 private:
  tl::unexpected<Error> error(const std::string& what) const {
    return fail(Code::kInvalidArgument, "line " + std::to_string(line_) + ": " + what);
  }
  std::optional<size_t> index_of(std::string_view column) const {
    for (size_t i = 0; i < matrix_.devices.size(); ++i) {
      if (matrix_.devices[i].column == column) return i;
    }
    return std::nullopt;
  }

  Status read_header(const Words& words) {
    size_t i = 0, gpus = 0;
    for (; i < words.size() && words[i] != "CPU" && words[i] != "NUMA" && words[i] != "GPU"; ++i) {
      if (index_of(words[i])) return error("there are two columns " + std::string(words[i]));
      const std::string column(words[i]);
      matrix_.devices.push_back({column, column, number_after("GPU", column), -1, "", false});
      gpus += matrix_.devices.back().number.has_value() ? 1 : 0;
    }
    for (; i + 1 < words.size(); ++i) {
      has_cpus_ |= words[i] == "CPU" && words[i + 1] == "Affinity";
      has_numa_ |= words[i] == "NUMA" && words[i + 1] == "Affinity";
      has_gpu_numa_ |= words[i] == "NUMA" && words[i + 1] == "ID";
    }
    if (std::max(gpus, matrix_.devices.size() - gpus) > kMaxDevices) {
      return error("there are too many columns");
    }
    return {};
  }

  Status read_cell(size_t row, size_t column, std::string_view word) {
    const std::string pair = matrix_.devices[row].column + " and " + matrix_.devices[column].column;
    const std::optional<Cell> cell = cell_of(word);
    if (!cell || (word == "X") != (row == column)) {
      return error("\"" + std::string(word) + "\" cannot be what connects " + pair);
    }
    if (row == column) return {};
    const auto [known, is_new] = matrix_.cells.emplace(std::minmax(row, column), *cell);
    if (is_new || known->second == *cell) return {};
    return error(pair + " are connected by " + std::string(word) +
                 ", but another line says otherwise");
  }

  // A cell with nothing in it is not seen, so what follows the cells counts only where all columns
  // have something.
  Status read_row(const Words& words) {
    const std::optional<size_t> row = words.empty() ? std::nullopt : index_of(words[0]);
    if (!row || words.size() < 2 || !cell_of(words[1])) return {};
    const size_t columns = matrix_.devices.size(), numa = columns + 2;
    if (words.size() <= columns) {
      return error("row " + std::string(words[0]) + " has " + std::to_string(words.size() - 1) +
                   " of " + std::to_string(columns) + " cells: paste the whole matrix");
    }
    for (size_t column = 0; column < columns; ++column) {
      if (Status status = read_cell(*row, column, words[column + 1]); !status) return status;
    }
    Device& device = matrix_.devices[*row];
    if (!device.number) return {};
    if (has_numa_ && words.size() > numa) device.numa = number_after("", words[numa]).value_or(-1);
    const bool one_node = !has_numa_ || device.numa >= 0;
    if (has_cpus_ && one_node && words.size() > columns + 1) {
      device.cpus = mask_of_list(words[columns + 1]).value_or("");
    }
    device.coherent = has_gpu_numa_ && words.size() > numa + 1 && number_after("", words[numa + 1]);
    return {};
  }

  // Reads "NIC0: mlx5_0".
  Status read_legend(const Words& words) {
    if (words.size() != 2 || !words[0].ends_with(":")) return {};
    const std::string_view column = words[0].substr(0, words[0].size() - 1);
    const std::optional<size_t> device = index_of(column);
    if (device && !matrix_.devices[*device].number) matrix_.devices[*device].name = words[1];
    if (device || !number_after("NIC", column)) return {};
    return error(
        "the legend names " + std::string(column) +
        ", which the matrix has no column for: paste it without line breaks of the terminal");
  }

  Status check_complete() const {
    for (size_t i = 0; i < matrix_.devices.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (matrix_.cells.contains({j, i})) continue;
        return fail(Code::kInvalidArgument,
                    "no row says what connects " + matrix_.devices[j].column + " and " +
                        matrix_.devices[i].column + ": paste the whole matrix");
      }
    }
    return {};
  }

  int line_ = 0;
  bool has_cpus_ = false;      // whether there is a column "CPU Affinity"
  bool has_numa_ = false;      // whether there is a column "NUMA Affinity"
  bool has_gpu_numa_ = false;  // whether there is a column "GPU NUMA ID"
  Matrix matrix_;
};

// Puts the devices of a matrix into a machine.
class SmiMachine {
 public:
  explicit SmiMachine(const Matrix& matrix) : matrix_(matrix) {
    sets_.fill(std::vector<size_t>(count()));
    for (std::vector<size_t>& sets : sets_) std::iota(sets.begin(), sets.end(), 0);
  }

  Result<Machine> make() {
    join_all();
    if (Status status = check(); !status) return forward_error(status);
    number_nodes();
    std::array<uint8_t, 2> next = {0, 0x80};  // buses of GPUs and of NICs
    for (const Device& device : matrix_.devices) {
      addresses_.push_back(Bdf{kMadeUp, next[device.number ? 0 : 1]++, 0, 0});
    }
    for (size_t i = 0; i < count(); ++i) add_device(i);
    machine_.gpu_links_known = true;
    sort(&machine_);
    return std::move(machine_);
  }

 private:
  size_t count() const { return matrix_.devices.size(); }

  // Joins the sets of two devices on every level from that of their cell on. The least device
  // stands for a set.
  void join_all() {
    for (const auto& [pair, cell] : matrix_.cells) {
      const Device &a = matrix_.devices[pair.first], &b = matrix_.devices[pair.second];
      const bool same_node = a.numa >= 0 && a.numa == b.numa;
      for (size_t level = cell.level.value_or(same_node ? kNode : kSys); level < kSys; ++level) {
        std::vector<size_t>& sets = sets_[level];
        const auto [least, other] = std::minmax({sets[pair.first], sets[pair.second]});
        std::replace(sets.begin(), sets.end(), size_t{other}, size_t{least});
      }
    }
  }

  std::string_view distance(size_t i, size_t j) const {
    size_t level = kPix;
    while (level < kSys && sets_[level][i] != sets_[level][j]) ++level;
    return kLevels[level].first;
  }

  Status check() const {
    for (const auto& [pair, cell] : matrix_.cells) {
      const std::string_view by_others = distance(pair.first, pair.second);
      if (!cell.level || kLevels[*cell.level].first == by_others) continue;
      return fail(Code::kInvalidArgument,
                  "the matrix contradicts itself: " + matrix_.devices[pair.first].column + " and " +
                      matrix_.devices[pair.second].column + " are " +
                      std::string(kLevels[*cell.level].first) +
                      ", but by their distances to other devices " + std::string(by_others));
    }
    return {};
  }

  // A set of devices is on the node that one of its GPUs names, or else on a number that is free.
  void number_nodes() {
    std::set<int> taken;
    std::map<size_t, int> numbers;       // by set
    std::map<size_t, std::string> cpus;  // likewise, from the first GPU
    for (size_t i = 0; i < count(); ++i) {
      const int numa = matrix_.devices[i].numa;
      const size_t set = sets_[kNode][i];
      if (numa >= 0 && !numbers.contains(set) && taken.insert(numa).second) numbers[set] = numa;
      if (!matrix_.devices[i].cpus.empty()) cpus.emplace(set, matrix_.devices[i].cpus);
    }
    for (size_t set : sets_[kNode]) {
      if (numbers.contains(set)) continue;
      int free = 0;
      while (!taken.insert(free).second) ++free;
      numbers[set] = free;
    }
    for (const auto& [set, number] : numbers) {
      node_of_[set] = static_cast<int>(machine_.numa_nodes.size());
      machine_.numa_nodes.push_back(NumaNode{number, -1, cpus[set]});
    }
  }

  int switch_of(size_t set, bool upper, const Attachment& at) {
    const auto [known, is_new] =
        switches_.emplace(std::pair(set, upper), static_cast<int>(machine_.switches.size()));
    if (!is_new) return known->second;
    const int index = known->second;
    Switch made;
    made.bdf =
        Bdf{kMadeUp, static_cast<uint8_t>(index % 256), static_cast<uint8_t>(1 + index / 256), 0};
    made.at = at;
    machine_.switches.push_back(made);
    return index;
  }

  Attachment attach(size_t device) {
    const auto [bridge, is_new] =
        bridge_of_.emplace(sets_[kPhb][device], static_cast<int>(machine_.host_bridges.size()));
    if (is_new) {
      machine_.host_bridges.push_back(HostBridge{kMadeUp, static_cast<uint8_t>(bridge->first)});
    }
    Attachment at{-1, node_of_[sets_[kNode][device]], bridge->second};
    const size_t near = sets_[kPix][device], far = sets_[kPxb][device];
    const auto size_of = [this](Level level, size_t set) {
      return std::count(sets_[level].begin(), sets_[level].end(), set);
    };
    if (size_of(kPxb, far) == 1) return at;
    // Where there are devices at PXB, all are on switches below a common one.
    if (size_of(kPix, near) < size_of(kPxb, far)) at.parent = switch_of(far, true, at);
    at.parent = switch_of(near, false, at);
    return at;
  }

  void add_device(size_t index) {
    const Device& device = matrix_.devices[index];
    if (device.number) {
      Gpu gpu;
      gpu.bdf = addresses_[index];
      gpu.at = attach(index);
      gpu.ids.vendor = kNvidia;
      gpu.dev = *device.number;
      // Only the memory of a GPU on NVLink-C2C is a NUMA node.
      gpu.c2c_links = device.coherent ? 1 : 0;
      if (device.coherent) machine_.cpu.arch = "arm64";
      add_nvlinks(index, &gpu);
      machine_.gpus.push_back(std::move(gpu));
      return;
    }
    Hca hca;
    hca.name = device.name;
    // Without a legend, the NIC has only its column's name, such as "NIC0".
    hca.named = device.name != device.column || !number_after("NIC", device.column);
    hca.bdf = addresses_[index];
    hca.at = attach(index);
    hca.ports.emplace_back();
    machine_.hcas.push_back(std::move(hca));
  }

  // Where a GPU has more links to others than a GPU can have, NVSwitches connect all of them.
  bool has_nvswitch() const {
    std::vector<int> links(count(), 0);
    for (const auto& [pair, cell] : matrix_.cells) {
      links[pair.first] += cell.nvlinks;
      links[pair.second] += cell.nvlinks;
    }
    return std::any_of(links.begin(), links.end(), [](int n) { return n > kMostNvLinksOfAGpu; });
  }

  void add_nvlinks(size_t index, Gpu* gpu) const {
    int most = 0;
    for (size_t other = 0; other < count(); ++other) {
      const int links = other == index ? 0 : matrix_.at(index, other).nvlinks;
      most = std::max(most, links);
      if (links == 0 || has_nvswitch()) continue;
      add_nvlink(gpu, NvLink{NvLink::To::kGpu, addresses_[other], links});
    }
    if (most == 0 || !has_nvswitch()) return;
    add_nvlink(gpu, NvLink{NvLink::To::kSwitch, std::nullopt, most});
  }

  const Matrix& matrix_;
  // By level, for each device the one that stands for the devices that are PIX, PXB or nearer, ...
  std::array<std::vector<size_t>, kSys> sets_;
  // Indexes in the machine by set: of NUMA nodes, of host bridges, and of switches, where the flag
  // is set of the upper ones.
  std::map<size_t, int> node_of_, bridge_of_;
  std::map<std::pair<size_t, bool>, int> switches_;
  std::vector<Bdf> addresses_;
  Machine machine_;
};

}  // namespace

bool has_smi_matrix(std::string_view text) {
  std::string plain(text);
  const std::vector<Words> lines = lines_of(&plain);
  return std::any_of(lines.begin(), lines.end(), is_header);
}

Result<Machine> nvidia_smi_text(std::string_view text, const std::string& name) {
  Result<Matrix> matrix = Parser().parse(std::string(text));
  Result<Machine> machine =
      matrix ? SmiMachine(*matrix).make() : Result<Machine>(forward_error(matrix));
  if (!machine) return fail(machine.error().code, name + ": " + machine.error().text);
  const bool coherent = machine->cpu.arch == "arm64";
  machine->source = "nvidia-smi topo -m in " + name +
                    " (addresses are made up; speeds and states of ports are unknown" +
                    (coherent ? "; NVLink-C2C and an Arm CPU are inferred from GPU NUMA ID)" : ")");
  return machine;
}

Result<Machine> nvidia_smi(const std::string& file) {
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  std::string text(kMaxText, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || !in.is_open()) {
    return fail_errno(Code::kInvalidArgument, file + " cannot be read", errno);
  }
  text.resize(static_cast<size_t>(in.gcount()));
  return nvidia_smi_text(text, file);
}

}  // namespace gdr::topology
