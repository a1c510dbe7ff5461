#include "tools/sources/nvidia_smi.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <map>
#include <numeric>
#include <set>

#include "tools/sources/nvidia_smi_matrix.h"
#include "topology/sources/nvlinks.h"
#include "topology/sources/selection.h"

namespace gdr::topology {
namespace {

constexpr uint32_t kMadeUp = 0xffff;    // the domain of all addresses
constexpr size_t kMaxText = 1 << 20;    // bytes
constexpr int kMostNvLinksOfAGpu = 18;  // of Hopper and Blackwell; earlier GPUs have fewer
constexpr size_t kLevels = 4;           // PIX, PXB, PHB, NODE

// Sets of devices that are joined one by one.
class Sets {
 public:
  explicit Sets(size_t count) : above_(count) { std::iota(above_.begin(), above_.end(), 0); }
  size_t find(size_t i) const {
    while (above_[i] != i) i = above_[i];
    return i;
  }
  // The least device stands for the set.
  void join(size_t i, size_t j) {
    size_t a = find(i), b = find(j);
    above_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<size_t> above_;
};

// Whether the NIC has only its column's name, such as "NIC0": the text has no legend for it.
bool is_made_up(const SmiDevice& nic) {
  constexpr std::string_view kPrefix = "NIC";
  return nic.name == nic.column && nic.column.starts_with(kPrefix) &&
         nic.column.find_first_not_of("0123456789", kPrefix.size()) == std::string::npos;
}

// Puts the devices of a matrix into a machine.
class SmiMachine {
 public:
  explicit SmiMachine(const SmiMatrix& matrix)
      : matrix_(matrix), sets_(kLevels, Sets(matrix.devices.size())) {}

  Result<Machine> make();

 private:
  size_t count() const { return matrix_.devices.size(); }
  void join_all();
  Status check() const;
  SmiPath path(size_t i, size_t j) const;
  void number_nodes();
  Attachment attach(size_t device);
  int switch_of(size_t key, bool upper, Attachment at);
  void add_device(size_t device);
  void add_nvlinks();
  bool has_nvswitch(const std::vector<size_t>& gpus) const;

  const SmiMatrix& matrix_;
  std::vector<Sets> sets_;         // by level: devices that are PIX, PXB or nearer, ...
  std::map<size_t, int> node_of_;  // index of the NUMA node, by the device that stands for the set
  std::map<size_t, int> bridge_of_;                  // index of the host bridge, likewise
  std::map<std::pair<size_t, bool>, int> switches_;  // by set, and whether it is the upper switch
  std::vector<Bdf> addresses_;
  Machine machine_;
};

void SmiMachine::join_all() {
  for (size_t i = 0; i < count(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      auto first = static_cast<size_t>(matrix_.cells[i][j].path);
      bool same_node =
          matrix_.devices[i].numa >= 0 && matrix_.devices[i].numa == matrix_.devices[j].numa;
      if (matrix_.cells[i][j].path == SmiPath::kUnknown) first = same_node ? kLevels - 1 : kLevels;
      for (size_t level = first; level < kLevels; ++level) sets_[level].join(i, j);
    }
  }
}

SmiPath SmiMachine::path(size_t i, size_t j) const {
  size_t level = 0;
  while (level < kLevels && sets_[level].find(i) != sets_[level].find(j)) ++level;
  return static_cast<SmiPath>(level);
}

Status SmiMachine::check() const {
  for (size_t i = 0; i < count(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      SmiPath stated = matrix_.cells[i][j].path;
      if (stated == SmiPath::kUnknown || stated == path(i, j)) continue;
      return fail(Code::kInvalidArgument,
                  "the matrix contradicts itself: " + matrix_.devices[j].column + " and " +
                      matrix_.devices[i].column + " are " + to_string(stated) +
                      ", but by their distances to other devices " + to_string(path(i, j)));
    }
  }
  return {};
}

// A set of devices is on the node that one of its GPUs names, or else on a number that is free.
void SmiMachine::number_nodes() {
  std::set<int> taken;
  std::map<size_t, std::string> cpus_of;  // by set, from its first GPU
  for (size_t i = 0; i < count(); ++i) {
    size_t set = sets_[kLevels - 1].find(i);
    int numa = matrix_.devices[i].numa;
    if (!matrix_.devices[i].cpus.empty()) cpus_of.emplace(set, matrix_.devices[i].cpus);
    if (numa < 0 || node_of_.count(set) != 0 || !taken.insert(numa).second) continue;
    node_of_[set] = numa;
  }
  for (size_t i = 0; i < count(); ++i) {
    size_t set = sets_[kLevels - 1].find(i);
    if (node_of_.count(set) != 0) continue;
    int free = 0;
    while (!taken.insert(free).second) ++free;
    node_of_[set] = free;
  }
  for (auto& [set, numa] : node_of_) {
    machine_.numa_nodes.push_back(NumaNode{numa, -1, cpus_of[set]});
    numa = static_cast<int>(machine_.numa_nodes.size()) - 1;
  }
}

int SmiMachine::switch_of(size_t set, bool upper, Attachment at) {
  auto known = switches_.find({set, upper});
  if (known != switches_.end()) return known->second;
  int index = static_cast<int>(machine_.switches.size());
  Switch made;
  made.bdf =
      Bdf{kMadeUp, static_cast<uint8_t>(index % 256), static_cast<uint8_t>(1 + index / 256), 0};
  made.at = at;
  machine_.switches.push_back(made);
  return switches_[{set, upper}] = index;
}

Attachment SmiMachine::attach(size_t device) {
  size_t bridge = sets_[2].find(device);
  if (bridge_of_.count(bridge) == 0) {
    bridge_of_[bridge] = static_cast<int>(machine_.host_bridges.size());
    machine_.host_bridges.push_back(HostBridge{kMadeUp, static_cast<uint8_t>(bridge)});
  }
  Attachment at{-1, node_of_[sets_[3].find(device)], bridge_of_[bridge]};
  size_t near = sets_[0].find(device), far = sets_[1].find(device);
  bool alone = true, alone_in_near = true;
  for (size_t i = 0; i < count(); ++i) {
    alone &= i == device || sets_[1].find(i) != far;
    alone_in_near &= sets_[1].find(i) != far || sets_[0].find(i) == near;
  }
  if (alone) return at;
  // Where there are devices at PXB, all are on switches below a common one.
  if (!alone_in_near) at.parent = switch_of(far, true, at);
  at.parent = switch_of(near, false, at);
  return at;
}

void SmiMachine::add_device(size_t index) {
  const SmiDevice& device = matrix_.devices[index];
  if (device.gpu) {
    Gpu gpu;
    gpu.bdf = addresses_[index];
    gpu.at = attach(index);
    gpu.ids.vendor = kNvidia;
    gpu.dev = device.number;
    // Only the memory of a GPU on NVLink-C2C is a NUMA node.
    gpu.c2c_links = device.coherent ? 1 : 0;
    machine_.gpus.push_back(std::move(gpu));
    return;
  }
  Hca hca;
  hca.name = device.name;
  hca.named = !is_made_up(device);
  hca.bdf = addresses_[index];
  hca.at = attach(index);
  hca.ports.emplace_back();
  machine_.hcas.push_back(std::move(hca));
}

// Where all GPUs have links to all others, and more than a GPU has, NVSwitches connect them.
bool SmiMachine::has_nvswitch(const std::vector<size_t>& gpus) const {
  int most = 0;
  for (size_t i : gpus) {
    int links = 0;
    for (size_t j : gpus) links += i == j ? 0 : matrix_.cells[i][j].nvlinks;
    most = std::max(most, links);
  }
  return most > kMostNvLinksOfAGpu;
}

void SmiMachine::add_nvlinks() {
  std::vector<size_t> gpus;
  for (size_t i = 0; i < count(); ++i) {
    if (matrix_.devices[i].gpu) gpus.push_back(i);
  }
  bool nvswitch = has_nvswitch(gpus);
  for (size_t n = 0; n < gpus.size(); ++n) {
    int to_switch = 0;
    for (size_t other : gpus) {
      int links = other == gpus[n] ? 0 : matrix_.cells[gpus[n]][other].nvlinks;
      to_switch = std::max(to_switch, links);
      if (links == 0 || nvswitch) continue;
      add_nvlink(&machine_.gpus[n], NvLink{NvLink::To::kGpu, addresses_[other], links});
    }
    if (!nvswitch || to_switch == 0) continue;
    add_nvlink(&machine_.gpus[n], NvLink{NvLink::To::kSwitch, std::nullopt, to_switch});
  }
}

Result<Machine> SmiMachine::make() {
  join_all();
  if (Status status = check(); !status) return forward_error(status);
  number_nodes();
  std::array<uint8_t, 2> next = {0, 0x80};  // buses of GPUs and of NICs
  for (const SmiDevice& device : matrix_.devices) {
    addresses_.push_back(Bdf{kMadeUp, next[device.gpu ? 0 : 1]++, 0, 0});
  }
  for (size_t i = 0; i < count(); ++i) add_device(i);
  add_nvlinks();
  bool coherent = std::any_of(matrix_.devices.begin(), matrix_.devices.end(),
                              [](const SmiDevice& device) { return device.coherent; });
  if (coherent) machine_.cpu.arch = "arm64";
  machine_.gpu_links_known = true;
  sort(&machine_);
  return std::move(machine_);
}

}  // namespace

Result<Machine> nvidia_smi_text(std::string_view text, const std::string& name) {
  Result<SmiMatrix> matrix = parse_smi_matrix(text);
  Result<Machine> machine =
      matrix ? SmiMachine(*matrix).make() : Result<Machine>(forward_error(matrix));
  if (!machine) return fail(machine.error().code, name + ": " + machine.error().text);
  machine->source = "nvidia-smi topo -m in " + name +
                    " (addresses are made up; speeds and states of ports are unknown";
  const bool coherent = std::any_of(machine->gpus.begin(), machine->gpus.end(),
                                    [](const Gpu& gpu) { return gpu.c2c_links > 0; });
  if (coherent) machine->source += "; NVLink-C2C and an Arm CPU are inferred from GPU NUMA ID";
  machine->source += ")";
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
