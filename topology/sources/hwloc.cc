#include "topology/sources/hwloc.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "topology/builder.h"
#include "topology/cpu_mask.h"
#include "topology/sources/hwloc_library.h"
#include "topology/sources/nvlinks.h"
#include "topology/sources/sysfs_files.h"
#include "topology/sources/sysfs_rdma.h"

namespace gdr::topology {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxDistance = 0xffff;  // firmware has numbers of one byte
constexpr unsigned kOtherBridge = 0x0680;  // PCI class of an NVSwitch

std::string info(hwloc_obj_t object, const char* name) {
  for (unsigned i = 0; i < object->infos_count; ++i) {
    if (std::strcmp(object->infos[i].name, name) == 0) return object->infos[i].value;
  }
  return "";
}

// Visits the object and everything below it. hwloc keeps normal, memory and I/O children in three
// lists (hwloc documentation, "Hierarchy, Tree and Levels").
template <class Visit>
void for_each_below(hwloc_obj_t object, const Visit& visit) {
  visit(object);
  for (hwloc_obj_t first :
       {object->memory_first_child, object->first_child, object->io_first_child}) {
    for (hwloc_obj_t child = first; child != nullptr; child = child->next_sibling) {
      for_each_below(child, visit);
    }
  }
}

bool is_pci_bridge(hwloc_obj_t object) {
  return object->type == HWLOC_OBJ_BRIDGE &&
         object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI;
}

// Returns the PCI attributes of a function or a bridge.
const auto& pci_attributes(hwloc_obj_t object) {
  return object->type == HWLOC_OBJ_BRIDGE ? object->attr->bridge.upstream.pci
                                          : object->attr->pcidev;
}

Bdf bdf_of(hwloc_obj_t object) {
  const auto& pci = pci_attributes(object);
  return Bdf{pci.domain, pci.bus, pci.dev, pci.func};
}

uint32_t object_class_of(hwloc_obj_t object) {
  return static_cast<uint32_t>(pci_attributes(object).class_id) << 8;
}

PciIds object_ids_of(hwloc_obj_t object) {
  const auto& pci = pci_attributes(object);
  return PciIds{pci.vendor_id, pci.device_id, pci.subvendor_id, pci.subdevice_id};
}

// Returns the PCI function that an OS device belongs to, or null.
hwloc_obj_t function_above(hwloc_obj_t object) {
  while (object != nullptr && object->type != HWLOC_OBJ_PCI_DEVICE) object = object->parent;
  return object;
}

// Returns the ports of an OpenFabrics device. hwloc describes port N by info attributes, of which
// PortNState is always there (hwloc documentation, "Custom string infos").
std::vector<Port> ports_of(hwloc_obj_t rdma_device) {
  std::vector<Port> ports;
  for (unsigned i = 0; i < rdma_device->infos_count; ++i) {
    int number = 0, end = 0;
    if (std::sscanf(rdma_device->infos[i].name, "Port%dState%n", &number, &end) != 1) continue;
    if (end == 0 || rdma_device->infos[i].name[end] != '\0' || number <= 0) continue;
    bool active = std::strcmp(rdma_device->infos[i].value, "4") == 0;  // IBV_PORT_ACTIVE
    Port port;
    port.number = number;
    port.state = active ? Port::State::kActive : Port::State::kDown;
    ports.push_back(port);
  }
  if (ports.empty()) ports.emplace_back();
  return ports;
}

std::string model_of(hwloc_obj_t gpu) {
  std::string model;
  for_each_below(gpu, [&](hwloc_obj_t object) {
    if (model.empty()) model = info(object, "GPUModel");
  });
  return model.empty() ? info(gpu, "PCIDevice") : model;
}

// Copies one topology of hwloc into a Machine.
class HwlocReader {
 public:
  // `sysfs` is the /sys of the live machine; nothing for a file.
  HwlocReader(const HwlocLibrary& library, hwloc_topology_t topology, const Selection& selection,
              std::optional<fs::path> sysfs)
      : hwloc_(library),
        topology_(topology),
        root_(library.get_obj_by_depth(topology, 0, 0)),
        selection_(selection),
        sysfs_(std::move(sysfs)) {}

  Machine read() {
    for_each_below(root_, [&](hwloc_obj_t object) {
      if (object->type == HWLOC_OBJ_PACKAGE) packages_.push_back(object);
      if (object->type == HWLOC_OBJ_NUMANODE) nodes_.push_back(object);
      if (object->type == HWLOC_OBJ_PCI_DEVICE) functions_.emplace(bdf_of(object), object);
      if (object->type == HWLOC_OBJ_OS_DEVICE) os_devices_.push_back(object);
    });
    add_cpu();
    add_nodes();
    add_distances();
    add_gpus();
    if (sysfs_) {
      add_rdma_devices(&machine_, *sysfs_,
                       [this](const PciLocation& location) { return live_position(location); });
    } else {
      add_hcas();
    }
    add_gpu_links();
    return std::move(machine_);
  }

 private:
  void add_cpu();
  void add_nodes();
  void add_distances();
  void add_gpus();
  void add_hcas();
  void add_gpu_links();
  bool add_gpu_links(const char* matrix_name);
  void add_gpu_links(const hwloc_distances_s& matrix);
  bool all_are_on_nvswitches() const;
  std::string cpu_mask(hwloc_const_bitmap_t cpus) const;
  std::string cpus_of(hwloc_obj_t node);
  void add_fault(std::string text, std::string fix);
  int numa_of(hwloc_obj_t object) const;
  fs::path sysfs_folder(const Bdf& bdf) const {
    return *sysfs_ / "bus" / "pci" / "devices" / bdf.to_string();
  }
  PciLink link_of(const Bdf& bdf) const;
  PciPosition position(hwloc_obj_t function);
  PciPosition live_position(const PciLocation& location);
  Gpu* gpu_of(hwloc_obj_t object);

  const HwlocLibrary& hwloc_;
  hwloc_topology_t topology_;
  hwloc_obj_t root_;
  const Selection& selection_;
  std::optional<fs::path> sysfs_;
  Machine machine_;
  std::vector<hwloc_obj_t> packages_;
  std::vector<hwloc_obj_t> nodes_;
  std::vector<hwloc_obj_t> os_devices_;
  std::map<Bdf, hwloc_obj_t> functions_;
};

void HwlocReader::add_cpu() {
  std::string arch = info(root_, "Architecture");
  if (arch == "aarch64") arch = "arm64";
  if (arch == "ppc64le") arch = "ppc64";
  machine_.cpu.arch = arch;
  if (packages_.empty()) return;
  machine_.cpu.vendor = info(packages_[0], "CPUVendor");
  machine_.cpu.family = std::atoi(info(packages_[0], "CPUFamilyNumber").c_str());
  machine_.cpu.model = std::atoi(info(packages_[0], "CPUModelNumber").c_str());
}

// Returns the mask as Linux writes it, with the same number of groups for every node.
std::string HwlocReader::cpu_mask(hwloc_const_bitmap_t cpus) const {
  int highest = hwloc_.bitmap_last(root_->complete_cpuset);
  std::string mask;
  for (int group = std::max(highest, 0) / 32; group >= 0; --group) {
    uint32_t bits = 0;
    for (int bit = 0; bit < 32; ++bit) {
      auto cpu = static_cast<unsigned>(group * 32 + bit);
      if (hwloc_.bitmap_isset(cpus, cpu) != 0) bits |= uint32_t{1} << bit;
    }
    char text[sizeof("00000000,")];
    std::snprintf(text, sizeof(text), "%08x%s", bits, group > 0 ? "," : "");
    mask += text;
  }
  return mask;
}

// One fault of a source is enough: the others are mostly the same at other devices.
void HwlocReader::add_fault(std::string text, std::string fix) {
  if (!machine_.findings.empty()) return;
  machine_.findings.push_back(
      {FindingKind::kTopologySource, Severity::kWarning, "", std::move(text), std::move(fix)});
}

// Returns the CPUs of a node. Where firmware has nodes that cut through packages, hwloc gives them
// CPUs of others, while NCCL has those of sysfs.
std::string HwlocReader::cpus_of(hwloc_obj_t node) {
  std::string cpus = cpu_mask(node->cpuset);
  if (!sysfs_) return cpus;
  const std::string number = std::to_string(node->os_index);
  std::string stated = first_line(*sysfs_ / "devices/system/node" / ("node" + number) / "cpumap");
  const auto numbers = cpus_in(stated), given = cpus_in(cpus);
  if (!numbers || numbers->empty() || !given) return cpus;
  if (std::includes(numbers->begin(), numbers->end(), given->begin(), given->end())) return cpus;
  add_fault("NUMA node " + number +
                " has a part of the CPUs of a package or of another node, as firmware or a "
                "hypervisor states it",
            "update the firmware, or give the virtual machine other NUMA nodes");
  return stated;
}

// Adds the NUMA nodes with CPUs. Nodes of HBM, CXL or GPU memory have none, and NCCL ignores them;
// hwloc lets them have the CPUs of the node of DRAM beside them, which comes first.
void HwlocReader::add_nodes() {
  for (hwloc_obj_t package : packages_) {
    machine_.packages.push_back(Package{static_cast<int>(package->os_index)});
  }
  for (hwloc_obj_t node : nodes_) {
    if (node->cpuset == nullptr || hwloc_.bitmap_first(node->cpuset) < 0) continue;
    std::string cpus = cpus_of(node);
    bool has_cpus_of_its_own = std::none_of(machine_.numa_nodes.begin(), machine_.numa_nodes.end(),
                                            [&](const NumaNode& one) { return one.cpus == cpus; });
    if (!has_cpus_of_its_own) continue;
    NumaNode& added = machine_.numa_nodes[numa_index(&machine_, static_cast<int>(node->os_index))];
    added.cpus = std::move(cpus);
    hwloc_obj_t above = node->parent;
    while (above != nullptr && above->type != HWLOC_OBJ_PACKAGE) above = above->parent;
    auto package = std::find(packages_.begin(), packages_.end(), above);
    if (package != packages_.end()) added.package = static_cast<int>(package - packages_.begin());
    if (packages_.size() == 1) added.package = 0;
  }
}

// Sets the distances between the nodes from hwloc's matrix of latencies, where it has one.
void HwlocReader::add_distances() {
  unsigned count = 1;
  hwloc_distances_s* matrix = nullptr;
  if (hwloc_.distances_get_by_type(topology_, HWLOC_OBJ_NUMANODE, &count, &matrix,
                                   HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0) != 0 ||
      count == 0 || matrix == nullptr) {
    return;
  }
  auto index_of = [&](unsigned i) {
    auto& all = machine_.numa_nodes;
    auto found = std::find_if(all.begin(), all.end(), [&](const NumaNode& node) {
      return matrix->objs[i] != nullptr && node.id == static_cast<int>(matrix->objs[i]->os_index);
    });
    return found == all.end() ? nullptr : &*found;
  };
  for (unsigned from = 0; from < matrix->nbobjs; ++from) {
    for (unsigned to = 0; to < matrix->nbobjs; ++to) {
      uint64_t value = matrix->values[from * matrix->nbobjs + to];
      NumaNode *a = index_of(from), *b = index_of(to);
      if (a == nullptr || b == nullptr || value > kMaxDistance) continue;
      a->distances[b->id] = static_cast<int>(value);
    }
  }
  hwloc_.distances_release(topology_, matrix);
}

// Returns the number of the NUMA node that the object is on; -1 where there are several.
int HwlocReader::numa_of(hwloc_obj_t object) const {
  while (object != nullptr && object->nodeset == nullptr) object = object->parent;
  int only = -1;
  for (const NumaNode& node : machine_.numa_nodes) {
    if (object == nullptr || node.id < 0) continue;
    if (hwloc_.bitmap_isset(object->nodeset, static_cast<unsigned>(node.id)) == 0) continue;
    if (only >= 0) return -1;
    only = node.id;
  }
  return only;
}

// hwloc has only the bandwidth of the whole link at its present speed, so the link comes from
// sysfs.
PciLink HwlocReader::link_of(const Bdf& bdf) const {
  if (!sysfs_) return {};
  auto function = pci_function(sysfs_folder(bdf));
  return function ? function->link : PciLink{};
}

PciPosition HwlocReader::position(hwloc_obj_t function) {
  PciPosition position;
  for (hwloc_obj_t above = function->parent; above != nullptr; above = above->parent) {
    if (above->type != HWLOC_OBJ_BRIDGE) break;
    if (is_pci_bridge(above)) {
      Bdf bdf = bdf_of(above);
      position.bridges.push_back(
          Bridge{bdf, object_class_of(above), object_ids_of(above), link_of(bdf)});
    } else {
      const auto& bus = above->attr->bridge.downstream.pci;
      position.host_bridge = HostBridge{bus.domain, bus.secondary_bus};
    }
  }
  std::reverse(position.bridges.begin(), position.bridges.end());
  if (!sysfs_) {
    position.numa = numa_of(function);
    return position;
  }
  // hwloc does not see bridges whose file `config` a copy of /sys or a container lacks.
  std::error_code broken;
  const fs::path folder = fs::canonical(sysfs_folder(bdf_of(function)), broken);
  PciPosition by_path = pci_position(folder);
  if (by_path.bridges.size() > position.bridges.size()) return by_path;
  if (position.bridges.empty() && !by_path.host_bridge) {
    add_fault("the bridges above " + bdf_of(function).to_string() +
                  " are unknown: sysfs has neither their files `config` nor a link to the function",
              "copy /sys with links, or run this on the machine");
  }
  // NCCL reads a numa_node file, so that file decides where it exists.
  fs::path own = sysfs_folder(bdf_of(function));
  auto top = topmost_switch(position);
  position.numa = numa_node_of_tree(top ? sysfs_folder(position.bridges[*top].bdf) : own, own);
  return position;
}

PciPosition HwlocReader::live_position(const PciLocation& location) {
  auto known = functions_.find(location.bdf);
  // hwloc leaves out PCI domains above 0xffff.
  return known != functions_.end() ? position(known->second) : pci_position(location.sysfs_path);
}

void HwlocReader::add_gpus() {
  for (auto [bdf, function] : functions_) {
    if (!selection_.is_gpu(object_class_of(function), object_ids_of(function).vendor)) continue;
    // The virtual functions of a GPU are meant for virtual machines.
    if (sysfs_ && pci_function(sysfs_folder(bdf))->physical_function) continue;
    Gpu gpu;
    gpu.bdf = bdf;
    gpu.at = attach(&machine_, position(function));
    gpu.class_code = object_class_of(function);
    gpu.ids = object_ids_of(function);
    gpu.link = link_of(bdf);
    gpu.model = model_of(function);
    machine_.gpus.push_back(std::move(gpu));
  }
}

void HwlocReader::add_hcas() {
  std::vector<Hca> without_pci;
  for (hwloc_obj_t device : os_devices_) {
    if (device->attr->osdev.type != HWLOC_OBJ_OSDEV_OPENFABRICS || device->name == nullptr)
      continue;
    Hca hca;
    hca.name = device->name;
    hca.guid = parse_guid(info(device, "SysImageGUID"));
    if (hca.guid == 0) hca.guid = parse_guid(info(device, "NodeGUID"));
    hca.ports = ports_of(device);
    hwloc_obj_t function = function_above(device);
    if (function == nullptr) {
      without_pci.push_back(std::move(hca));
      continue;
    }
    hca.bdf = bdf_of(function);
    hca.at = attach(&machine_, position(function));
    hca.class_code = object_class_of(function);
    hca.ids = object_ids_of(function);
    machine_.hcas.push_back(std::move(hca));
  }
  for (Hca& hca : without_pci) {
    hca.at = attach_without_pci(machine_);
    machine_.hcas.push_back(std::move(hca));
  }
}

Gpu* HwlocReader::gpu_of(hwloc_obj_t object) {
  hwloc_obj_t function = function_above(object);
  if (function == nullptr) return nullptr;
  for (Gpu& gpu : machine_.gpus) {
    if (gpu.bdf == bdf_of(function)) return &gpu;
  }
  return nullptr;
}

bool is_nvswitch(hwloc_obj_t object) {
  return object != nullptr && object->type == HWLOC_OBJ_PCI_DEVICE &&
         pci_attributes(object).class_id == kOtherBridge &&
         pci_attributes(object).vendor_id == kNvidia;
}

// Adds the links of hwloc's matrix of NVLinks or xGMI links, which has bandwidths between GPUs (as
// OS devices of NVML), NVSwitches and the CPUs of POWER. The number of links is unknown.
void HwlocReader::add_gpu_links(const hwloc_distances_s& matrix) {
  for (unsigned from = 0; from < matrix.nbobjs; ++from) {
    Gpu* gpu = gpu_of(matrix.objs[from]);
    for (unsigned to = 0; gpu != nullptr && to < matrix.nbobjs; ++to) {
      hwloc_obj_t target = matrix.objs[to];
      if (to == from || target == nullptr || matrix.values[from * matrix.nbobjs + to] == 0)
        continue;
      if (is_nvswitch(target)) {
        add_nvlink(gpu, NvLink{NvLink::To::kSwitch, std::nullopt, 0});
      } else if (target->type == HWLOC_OBJ_PACKAGE || target->type == HWLOC_OBJ_NUMANODE) {
        add_nvlink(gpu, NvLink{NvLink::To::kCpu, std::nullopt, 0});
      } else if (const Gpu* other = gpu_of(target); other != nullptr && other != gpu) {
        add_nvlink(gpu, NvLink{NvLink::To::kGpu, other->bdf, 0});
      }
    }
  }
}

// Returns whether hwloc has the matrix, and adds its links.
bool HwlocReader::add_gpu_links(const char* matrix_name) {
  unsigned count = 1;
  hwloc_distances_s* matrix = nullptr;
  if (hwloc_.distances_get_by_name(topology_, matrix_name, &count, &matrix, 0) != 0) return false;
  if (count == 0 || matrix == nullptr) return false;
  add_gpu_links(*matrix);
  hwloc_.distances_release(topology_, matrix);
  return true;
}

// A machine with NVSwitches has them to connect its GPUs. Only GPUs of one kind are certainly all
// connected: a server of such GPUs may have a PCIe card of another kind as well.
bool HwlocReader::all_are_on_nvswitches() const {
  bool nvswitch = std::any_of(functions_.begin(), functions_.end(),
                              [](const auto& one) { return is_nvswitch(one.second); });
  return nvswitch && std::all_of(machine_.gpus.begin(), machine_.gpus.end(), [&](const Gpu& gpu) {
           return gpu.ids.vendor == kNvidia && gpu.ids.device == machine_.gpus[0].ids.device;
         });
}

// Without a matrix, NVML answers on the live machine, but a file leaves the links unknown.
void HwlocReader::add_gpu_links() {
  bool nvlinks = add_gpu_links("NVLinkBandwidth");
  bool known = add_gpu_links("XGMIBandwidth") || nvlinks;
  if (!known && !sysfs_ && all_are_on_nvswitches()) {
    for (Gpu& gpu : machine_.gpus) add_nvlink(&gpu, NvLink{NvLink::To::kSwitch, std::nullopt, 0});
    known = true;
  }
  // hwloc never has NVLink-C2C, which only CPUs of Arm have.
  machine_.gpu_links_known = known && machine_.cpu.arch != "arm64";
}

}  // namespace

Machine machine_of(const HwlocLibrary& library, const HwlocTopology& topology,
                   const Selection& selection, std::optional<std::filesystem::path> sysfs) {
  Machine machine = HwlocReader(library, topology.get(), selection, std::move(sysfs)).read();
  sort(&machine);
  return machine;
}

Result<Machine> hwloc_live(const Selection& selection) {
  auto library = HwlocLibrary::load();
  if (!library) return forward_error(library);
  auto topology = load_live(**library);
  if (!topology) return forward_error(topology);
  const char* root = std::getenv("HWLOC_FSROOT");
  fs::path sysfs = fs::path(root != nullptr && *root != '\0' ? root : "/") / "sys";
  Machine machine = machine_of(**library, *topology, selection, sysfs);
  machine.sysfs = true;
  add_switch_peers(&machine, sysfs);
  hwloc_obj_t object = (*library)->get_obj_by_depth(topology->get(), 0, 0);
  machine.source = "hwloc " + info(object, "hwlocVersion");
  if (root != nullptr && *root != '\0') machine.source += std::string(" of ") + root;
  return machine;
}

}  // namespace gdr::topology
