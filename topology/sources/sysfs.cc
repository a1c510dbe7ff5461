#include "topology/sources/sysfs.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "topology/builder.h"
#include "topology/cpu_mask.h"
#include "topology/sources/sysfs_files.h"
#include "topology/sources/sysfs_rdma.h"

namespace gdr::topology {
namespace {

namespace fs = std::filesystem;

// Returns the number in a name such as "cpu12" with the prefix "cpu"; -1 for other names.
int number_after(const std::string& prefix, const std::string& name) {
  if (name.compare(0, prefix.size(), prefix) != 0) return -1;
  int number = -1;
  auto end = name.data() + name.size();
  auto [stop, error] = std::from_chars(name.data() + prefix.size(), end, number);
  return error == std::errc() && stop == end && number >= 0 ? number : -1;
}

// Returns the subfolders named `prefix`<number>, by number.
std::map<int, fs::path> numbered(const fs::path& folder, const std::string& prefix) {
  std::map<int, fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    int number = number_after(prefix, it->path().filename().string());
    if (number >= 0) found.emplace(number, it->path());
  }
  return found;
}

// Returns the package of each CPU, with the numbers of the operating system.
std::map<int, int> packages_of_cpus(const fs::path& sysfs) {
  std::map<int, int> packages;
  for (const auto& [cpu, folder] : numbered(sysfs / "devices" / "system" / "cpu", "cpu")) {
    std::string text = first_line(folder / "topology" / "physical_package_id");
    int package = number_after("", text);
    if (package >= 0) packages.emplace(cpu, package);
  }
  return packages;
}

int package_index(Machine* machine, int id) {
  auto& all = machine->packages;
  auto found = std::find(all.begin(), all.end(), Package{id});
  if (found == all.end()) found = all.insert(all.end(), Package{id});
  return static_cast<int>(found - all.begin());
}

// Adds the NUMA nodes with CPUs. Nodes of HBM, CXL or GPU memory have none; NCCL ignores them.
void add_nodes(Machine* machine, const fs::path& sysfs) {
  std::map<int, int> packages = packages_of_cpus(sysfs);
  for (auto [cpu, package] : packages) (void)package_index(machine, package);
  for (const auto& [id, folder] : numbered(sysfs / "devices" / "system" / "node", "node")) {
    std::string mask = first_line(folder / "cpumap");
    std::vector<int> cpus = cpus_in(mask).value_or(std::vector<int>{});
    if (cpus.empty()) continue;
    NumaNode& node = machine->numa_nodes[numa_index(machine, id)];
    node.cpus = mask;
    bool first = true;
    for (int cpu : cpus) {
      auto package = packages.find(cpu);
      int index = package == packages.end() ? -1 : package_index(machine, package->second);
      node.package = first || index == node.package ? index : -1;
      if (node.package < 0) break;
      first = false;
    }
  }
}

// Sets the distances between the nodes. The file of each has those to all nodes, in their order.
void add_distances(Machine* machine, const fs::path& sysfs) {
  const std::map<int, fs::path> nodes = numbered(sysfs / "devices" / "system" / "node", "node");
  auto is_kept = [&](int id) {
    return std::any_of(machine->numa_nodes.begin(), machine->numa_nodes.end(),
                       [&](const NumaNode& node) { return node.id == id; });
  };
  for (NumaNode& node : machine->numa_nodes) {
    auto folder = nodes.find(node.id);
    if (folder == nodes.end()) continue;
    std::istringstream line(first_line(folder->second / "distance"));
    for (const auto& [id, unused] : nodes) {
      int distance = 0;
      if (!(line >> distance)) break;
      if (is_kept(id)) node.distances[id] = distance;
    }
  }
}

// Reads the lines about the first processor in /proc/cpuinfo, which is found beside /sys.
Cpu read_cpu(const fs::path& cpuinfo) {
  Cpu cpu;
  std::ifstream stream(cpuinfo);
  for (std::string line; std::getline(stream, line);) {
    size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    std::string key = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    size_t start = line.find_first_not_of(" \t", colon + 1);
    std::string value = start == std::string::npos ? "" : line.substr(start);
    if (key == "processor" && value != "0") break;
    if (key == "vendor_id") cpu.arch = "x86_64", cpu.vendor = value;
    if (key == "cpu family") cpu.family = std::atoi(value.c_str());
    if (key == "model") cpu.model = std::atoi(value.c_str());
    if (key == "CPU implementer") cpu.arch = "arm64";
    if (key == "cpu" && value.compare(0, 5, "POWER") == 0) cpu.arch = "ppc64";
  }
  return cpu;
}

void add_gpu(Machine* machine, const PciFunction& function, const fs::path& folder) {
  Gpu gpu;
  gpu.bdf = function.bdf;
  gpu.at = attach(machine, pci_position(folder));
  gpu.class_code = function.class_code;
  gpu.ids = function.ids;
  gpu.link = function.link;
  machine->gpus.push_back(std::move(gpu));
}

}  // namespace

Result<Machine> sysfs_machine(const fs::path& sysfs_root, const Selection& selection) {
  std::error_code error;
  fs::path root = fs::canonical(sysfs_root, error);
  if (error ||
      (!fs::is_directory(root / "bus", error) && !fs::is_directory(root / "devices", error))) {
    return fail(Code::kSystem, sysfs_root.string() +
                                   " is not a readable sysfs: mount it (into "
                                   "the container, if this is one)");
  }
  Machine machine;
  machine.source = sysfs_root.string();
  machine.sysfs = true;
  machine.cpu = read_cpu(root.parent_path() / "proc" / "cpuinfo");
  add_nodes(&machine, root);
  add_distances(&machine, root);
  for (const fs::path& folder : pci_folders(root)) {
    auto function = pci_function(folder);
    // The virtual functions of a GPU are meant for virtual machines.
    if (!function || function->physical_function) continue;
    if (!selection.is_gpu(function->class_code, function->ids.vendor)) continue;
    add_gpu(&machine, *function, folder);
  }
  add_rdma_devices(&machine, root,
                   [](const PciLocation& location) { return pci_position(location.sysfs_path); });
  add_switch_peers(&machine, root);
  sort(&machine);
  return machine;
}

}  // namespace gdr::topology
