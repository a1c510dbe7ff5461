#include "tools/sources/nvidia_smi.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/finding.h"
#include "tools/sources/smi_matrix.h"
#include "topology/builder.h"
#include "topology/sources/nvlinks.h"
#include "topology/sources/selection.h"

namespace gdr::topology {
namespace smi {
namespace {

constexpr uint32_t kMadeUp = 0xffff;    // the domain of all addresses
constexpr int kMostNvLinksOfAGpu = 18;  // of Hopper and Blackwell; earlier GPUs have fewer

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
    std::array<uint8_t, 2> next = {0, 0x80};  // buses of GPUs and of NICs
    for (const Device& device : matrix_.devices) {
      addresses_.push_back(Bdf{kMadeUp, next[device.number ? 0 : 1]++, 0, 0});
    }
    for (size_t i = 0; i < count(); ++i) add_device(i);
    name_nodes();
    machine_.gpu_links_known = matrix_.nvlinks_known;
    if (!matrix_.source_fault.empty()) {
      machine_.findings.push_back(
          {FindingKind::kTopologySource, Severity::kWarning, "",
           matrix_.source_fault + ", and devices may be missing",
           "run nccl-gdr on the machine, or give --from a file of lstopo or "
           "NCCL"});
    }
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

  // Switches and host bridges are those of the device's sets, and so is the node until
  // name_nodes().
  Attachment attach(size_t device) {
    const auto set = [&](Level level) { return static_cast<uint8_t>(sets_[level][device]); };
    const auto size_of = [&](Level level) {
      return std::count(sets_[level].begin(), sets_[level].end(), sets_[level][device]);
    };
    PciPosition position{{}, HostBridge{kMadeUp, set(kPhb)}, set(kNode)};
    // A switch is two bridges. Where devices are PXB, all are on switches below a common one.
    for (Level level : {kPxb, kPix}) {
      if (size_of(kPxb) == 1 || (level == kPxb && size_of(kPix) == size_of(kPxb))) continue;
      const Bdf made_up{kMadeUp, set(level), static_cast<uint8_t>(1 + level), 0};
      position.bridges.insert(position.bridges.end(), 2, Bridge{made_up, 0x060400, {}, {}});
    }
    return topology::attach(&machine_, position);
  }

  // A set of devices is on the node that its GPUs name; on an unknown one where none or several
  // are named.
  void name_nodes() {
    for (NumaNode& node : machine_.numa_nodes) {
      std::set<int> stated;
      for (size_t i = 0; i < count(); ++i) {
        if (static_cast<int>(sets_[kNode][i]) != node.id) continue;
        const Device& device = matrix_.devices[i];
        if (device.numa >= 0) stated.insert(device.numa);
        if (node.cpus.empty()) node.cpus = device.cpus;
      }
      node.id = stated.size() == 1 ? *stated.begin() : -1;
    }
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
  std::vector<Bdf> addresses_;
  Machine machine_;
};

// Says what the text does not state.
std::string source_text(const Machine& machine, const std::string& name) {
  std::string text = "nvidia-smi topo -m in " + name +
                     " (addresses are made up; speeds and states of ports are unknown";
  if (!machine.gpu_links_known) text += "; NVLinks are unknown";
  if (machine.cpu.arch == "arm64")
    text += "; NVLink-C2C and an Arm CPU are inferred from GPU NUMA ID";
  for (const Finding& one : machine.findings) text += "; " + one.text;
  return text + ")";
}

Result<Machine> machine_of(const std::vector<Lines>& matrices, const std::string& name) {
  if (matrices.empty()) {
    return fail(Code::kInvalidArgument, name + ": no line names the columns GPU0, GPU1 and so on");
  }
  if (matrices.size() > 1) {
    return fail(Code::kInvalidArgument,
                name + " has " + std::to_string(matrices.size()) +
                    " matrices, as those of several machines. Fix: leave one in it");
  }
  Result<Matrix> matrix = parse(matrices.front());
  Result<Machine> machine =
      matrix ? SmiMachine(*matrix).make() : Result<Machine>(forward_error(matrix));
  if (!machine) return fail(machine.error().code, name + ": " + machine.error().text);
  machine->source = source_text(*machine, name);
  return machine;
}

}  // namespace
}  // namespace smi

bool has_smi_matrix(std::string_view text) { return !smi::matrices_in(text).empty(); }

Result<Machine> nvidia_smi(std::string_view text, const std::string& name) {
  return smi::machine_of(smi::matrices_in(text), name);
}

}  // namespace gdr::topology
