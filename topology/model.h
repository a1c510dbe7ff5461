// A machine as rails see it: GPUs, HCAs and what lies between them, as plain values. A source
// (sources/) fills it; nothing here reads the system.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "topology/bdf.h"

namespace gdr::topology {

struct PciIds {
  uint16_t vendor = 0;
  uint16_t device = 0;
  uint16_t subsystem_vendor = 0;
  uint16_t subsystem_device = 0;
  bool operator==(const PciIds&) const = default;
};

// What a link can do at best; 0: not known.
struct PciLink {
  double gt_per_s = 0;  // of one lane
  int width = 0;        // lanes
  bool operator==(const PciLink&) const = default;
};

struct Package {
  int id = 0;  // the operating system's
  bool operator==(const Package&) const = default;
};

// What NCCL calls a CPU.
struct NumaNode {
  int id = -1;       // the operating system's; -1: of PCI devices whose node nobody tells
  int package = -1;  // index in Machine::packages; -1: not known
  std::string cpus;  // mask as in /sys/devices/system/node/node*/cpumap; "" where not known
  bool operator==(const NumaNode&) const = default;
};

struct HostBridge {
  uint32_t domain = 0;
  uint8_t bus = 0;  // its root bus
  auto operator<=>(const HostBridge&) const = default;
};

// Where a PCI function hangs. All are indexes in Machine.
struct Attachment {
  int parent = -1;       // the nearest switch above; -1: none below the host bridge
  int numa = -1;         // -1 only in a machine without NUMA nodes
  int host_bridge = -1;  // -1: not known (NCCL's files do not tell)
  bool operator==(const Attachment&) const = default;
};

// A PCIe switch by its upstream port, as NCCL counts switches: a port and the one below it make one
// hop, and a root port on its own none.
struct Switch {
  Bdf bdf;
  Attachment at;
  uint32_t class_code = 0x060400;
  PciIds ids;
  PciLink link;
  bool operator==(const Switch&) const = default;
};

struct NvLink {
  enum class To { kGpu, kSwitch, kCpu };
  To to = To::kSwitch;
  std::optional<Bdf> gpu;  // for kGpu
  int count = 1;           // 0: at least one
  bool operator==(const NvLink&) const = default;
};

struct Gpu {
  Bdf bdf;
  Attachment at;
  uint32_t class_code = 0x030200;
  PciIds ids;
  PciLink link;
  std::string model;              // as the source words it; may be empty
  int compute_capability = 0;     // 80 for 8.0; 0: not known
  std::optional<bool> gpudirect;  // whether the driver supports GPUDirect RDMA; nothing: not known
  std::vector<NvLink> nvlinks;
  int c2c_links = 0;  // NVLink-C2C to its own NUMA node
  bool operator==(const Gpu&) const = default;
};

struct Port {
  enum class State { kUnknown, kActive, kDown };
  enum class LinkLayer { kUnknown, kInfiniBand, kEthernet };
  int number = 1;
  State state = State::kUnknown;
  int speed_mbps = 0;  // 0: not known
  LinkLayer link_layer = LinkLayer::kUnknown;
  bool operator==(const Port&) const = default;
};

struct Hca {
  std::string name;
  std::optional<Bdf> bdf;  // nothing: on no PCI function, see attach_nowhere()
  Attachment at;
  uint32_t class_code = 0x020700;
  PciIds ids;
  PciLink link;
  uint64_t guid = 0;                     // system image; 0: not known
  std::optional<Bdf> physical_function;  // of a virtual function, where that is known
  std::optional<bool> gpudirect;         // whether it registers GPU memory; nothing: not known
  std::vector<Port> ports;               // by number
  bool operator==(const Hca&) const = default;
};

struct Cpu {
  std::string arch;    // "x86_64", "arm64", "ppc64"; "" where not known
  std::string vendor;  // "GenuineIntel", ...
  int family = 0;
  int model = 0;
  bool operator==(const Cpu&) const = default;
};

struct Machine {
  std::string source;  // for people: what this was read from
  // Read from a NCCL topology file, in which NCCL looks devices up by their addresses.
  bool nccl_file = false;
  Cpu cpu;
  std::vector<Package> packages;
  std::vector<NumaNode> numa_nodes;
  std::vector<HostBridge> host_bridges;
  std::vector<Switch> switches;
  std::vector<Gpu> gpus;  // GPU i is gpus[i]
  std::vector<Hca> hcas;
  bool gpu_links_known = false;  // whether a GPU without nvlinks and c2c_links has none
};

// The order in which everything here counts devices, whatever order a source lists them in: by PCI
// address, HCAs without one last and by name (mlx5_2 before mlx5_10), NUMA nodes and packages by
// id. Indexes are renumbered.
void sort(Machine* machine);

// Calls visit(Attachment*) for all switches, GPUs and HCAs.
template <class Visit>
void for_each_attachment(Machine* machine, Visit visit) {
  for (Switch& item : machine->switches) visit(&item.at);
  for (Gpu& item : machine->gpus) visit(&item.at);
  for (Hca& item : machine->hcas) visit(&item.at);
}

// mlx5_2 before mlx5_10.
bool name_less(const std::string& a, const std::string& b);

}  // namespace gdr::topology
