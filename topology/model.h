// A machine as far as rails depend on it: GPUs, HCAs and the PCI tree between them, as plain
// values. A source (topology/sources) fills it; nothing here reads the system. Objects refer to
// each other by index in the vectors of Machine, and -1 stands for "unknown" or "none", as each
// field says.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/finding.h"
#include "topology/bdf.h"

namespace gdr::topology {

// The identity of a PCI function: vendor and device, 0 where unknown.
struct PciIds {
  uint16_t vendor = 0;
  uint16_t device = 0;
  uint16_t subsystem_vendor = 0;
  uint16_t subsystem_device = 0;
  bool operator==(const PciIds&) const = default;
};

// The best that a PCIe link supports, not what it runs at now; 0: unknown, each by itself.
struct PciLink {
  double gt_per_s = 0;  // gigatransfers per second of one lane: 16 for PCIe 4.0
  int width = 0;        // lanes; 255, which NCCL takes for a number, where the kernel knows none
  // Whether the speed is what NCCL takes for a text in its topology file that it does not know, and
  // says nothing of the hardware.
  bool is_speed_assumed = false;
  bool operator==(const PciLink&) const = default;
};

// A CPU socket.
struct Package {
  int id = 0;  // the number that the operating system gives it
  bool operator==(const Package&) const = default;
};

// A NUMA node with CPUs, which is what NCCL calls a CPU (<cpu> in its topology files).
struct NumaNode {
  int id = -1;       // the operating system's number; -1: the node of devices whose node is unknown
  int package = -1;  // index in Machine::packages; -1: unknown
  std::string cpus;  // mask as in /sys/devices/system/node/node*/cpumap; "" where unknown
  // Relative latency to each node by its `id`, as firmware states it: 10 to the node itself. As in
  // /sys/devices/system/node/node*/distance; empty where unknown.
  std::map<int, int> distances = {};
  int order = -1;  // position in the file that the machine was read from; see Attachment::order
  bool operator==(const NumaNode&) const = default;
};

// A host bridge (root complex), by the PCI bus directly below it.
struct HostBridge {
  uint32_t domain = 0;
  uint8_t bus = 0;  // the root bus
  auto operator<=>(const HostBridge&) const = default;
};

// The point of the PCI tree that a function is attached to. All fields are indexes in Machine.
struct Attachment {
  int parent = -1;       // the nearest switch above; -1: there is none below the host bridge
  int numa = -1;         // -1 only in a machine without NUMA nodes
  int host_bridge = -1;  // -1: unknown, as in NCCL's topology files
  // Position of the device in the file that the machine was read from, by which NCCL breaks ties;
  // -1: no such file, and PCI addresses give the order.
  int order = -1;
  bool operator==(const Attachment&) const = default;
};

// A PCIe switch, identified by its upstream port. The upstream port and one downstream port make
// one hop, as NCCL counts; see attach() in builder.h.
struct Switch {
  Bdf bdf;
  Attachment at;
  uint32_t class_code = 0x060400;
  PciIds ids;
  PciLink link;
  // Switches that this one is linked to beside the tree (<pcilink> in NCCL's files). NCCL writes
  // them for Broadcom switches that are cabled to each other.
  std::vector<Bdf> peers = {};
  bool operator==(const Switch&) const = default;
};

// The NVLinks (or xGMI links) of a GPU to one target.
struct NvLink {
  enum class To { kGpu, kSwitch, kCpu };
  To to = To::kSwitch;
  std::optional<Bdf> gpu;  // the target, only for kGpu
  int count = 1;           // number of links; 0: at least one, but the number is unknown
  bool operator==(const NvLink&) const = default;
};

// A GPU, or one partition of a GPU that is split (MLOPart): partitions share the address.
struct Gpu {
  Bdf bdf;
  int partition = -1;  // 0, 1, ...; -1: the GPU is not split
  Attachment at;
  uint32_t class_code = 0x030200;
  PciIds ids;
  PciLink link;
  std::string model;              // "NVIDIA H100 80GB HBM3", as in the source; may be empty
  int compute_capability = 0;     // 80 for 8.0; 0: unknown
  std::optional<bool> gpudirect;  // whether the driver supports GPUDirect RDMA; nothing: unknown
  uint64_t bar1_bytes = 0;        // the window for PCIe devices into its memory; 0: unknown
  std::vector<NvLink> nvlinks;
  int c2c_links = 0;     // NVLink-C2C links to the GPU's own NUMA node
  int c2c_mb_per_s = 0;  // bandwidth of one of them in megabytes per second; 0: unknown
  int dev = -1;          // NVML's number for the GPU; -1: its position by PCI address
  bool operator==(const Gpu&) const = default;
};

// A port of an HCA.
struct Port {
  enum class State { kUnknown, kActive, kDown };
  enum class LinkLayer { kUnknown, kInfiniBand, kEthernet };
  int number = 1;  // from 1, as verbs counts
  State state = State::kUnknown;
  int speed_mbps = 0;  // megabits per second; 0: unknown. A port that is down may report any speed
  LinkLayer link_layer = LinkLayer::kUnknown;
  int dev =
      -1;  // NCCL's number for the device in the file that the machine was read from; -1: none
  int order = -1;  // position in that file; see Attachment::order
  // What the link runs at, where `speed_mbps` is what NCCL's topology file states; 0: the same, or
  // unknown.
  int link_mbps = 0;
  bool operator==(const Port&) const = default;
};

// An RDMA device. The functions of one card are devices of their own.
struct Hca {
  std::string name;  // "mlx5_0", as verbs calls it
  // Whether verbs knows the name. If not, the source has none, and it is made up or the PCI
  // address; or NCCL merged several devices to this one.
  bool named = true;
  bool data_direct = false;  // whether a NCCL topology file lists its Data Direct function
  std::optional<Bdf> bdf;    // nothing: on no PCI function, see attach_without_pci()
  Attachment at;
  uint32_t class_code = 0x020700;
  PciIds ids;
  PciLink link;
  uint64_t guid = 0;                     // system image GUID; 0: unknown
  std::optional<Bdf> physical_function;  // only for a virtual function, and where it is known
  std::optional<bool> gpudirect;         // whether it can register GPU memory; nothing: unknown
  std::vector<Port> ports;               // at least one, ascending by number
  bool operator==(const Hca&) const = default;
};

// The kind of CPU, which is the same for all sockets; NCCL derives bandwidths from it.
struct Cpu {
  std::string arch;    // "x86_64", "arm64", "ppc64"; "" where unknown
  std::string vendor;  // "GenuineIntel", "AuthenticAMD", ...
  int family = 0;
  int model = 0;
  bool operator==(const Cpu&) const = default;
};

struct Machine {
  std::string source;  // what this was read from, for people: "hwloc 2.9.0"
  std::string host;    // the host's name, or NCCL's hash of it ("0x1234"); "" where unknown
  int hosts = 1;       // how many hosts the source describes; this machine is one of them
  Findings findings;   // what the source leaves out or has wrong, and lines that NCCL refuses
  // Whether it was read from a NCCL topology file. NCCL then looks devices up there by address, so
  // the addresses that the plugin reports have to be those of the file.
  bool nccl_file = false;
  // Whether it was read from sysfs, where NCCL reads it, too: NCCL has the same values, and takes
  // its defaults for what sysfs does not state. False for files of other programs.
  bool sysfs = false;
  Cpu cpu;
  std::vector<Package> packages;
  std::vector<NumaNode> numa_nodes;
  std::vector<HostBridge> host_bridges;
  std::vector<Switch> switches;
  std::vector<Gpu> gpus;  // gpus[i] is called GPU<i>
  std::vector<Hca> hcas;
  // How many functions of a file may be GPUs or HCAs, or elsewhere: it lacks their class, or NCCL
  // does not find them by their address, and takes what /sys of the machine has.
  int unclassified = 0;
  bool gpu_links_known = false;  // whether a GPU without entries in nvlinks and c2c_links has none
};

// Sorts a machine into the order in which everything here counts devices, whatever the order of the
// source: by PCI address, partitions of a GPU by number, HCAs without an address last and by name,
// ports by number, NUMA nodes and packages by id. Indexes are adapted.
void sort(Machine* machine);

// Calls visit(Attachment*) for all switches, GPUs and HCAs.
template <class Visit>
void for_each_attachment(Machine* machine, Visit visit) {
  for (Switch& item : machine->switches) visit(&item.at);
  for (Gpu& item : machine->gpus) visit(&item.at);
  for (Hca& item : machine->hcas) visit(&item.at);
}

// Compares names with numbers in them by the numbers: mlx5_2 is less than mlx5_10.
bool name_less(const std::string& a, const std::string& b);

}  // namespace gdr::topology
