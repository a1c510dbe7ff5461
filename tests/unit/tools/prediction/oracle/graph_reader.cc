#include "tests/unit/tools/prediction/oracle/graph_reader.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/unit/tools/prediction/oracle/file_tree.h"
#include "topology/path_class.h"

namespace gdr::topology::oracle {
namespace {

constexpr int kLoc = static_cast<int>(PathClass::kLoc);
constexpr int kNvl = static_cast<int>(PathClass::kNvl);
constexpr int kC2c = static_cast<int>(PathClass::kC2c);
constexpr int kPci = static_cast<int>(PathClass::kPix);
constexpr int kSys = static_cast<int>(PathClass::kSys);

constexpr float kLocal = 5000;          // within a device
constexpr float kBetweenHalves = 2618;  // between the partitions of a GPU
constexpr int kMostPartitions = 2;
constexpr int64_t kPartitionBits = 3;    // of a device's id: split or not, and which half
constexpr int kDeepestCpuSearch = 1000;  // beyond: endless

bool starts(const char* text, const char* prefix) {
  return std::strncmp(text, prefix, std::strlen(prefix)) == 0;
}

// What NCCL takes a PCI function for by its class.
Kind kind_of_class(const char* pci_class) {
  if (starts(pci_class, "0x068000")) return Kind::kNvs;
  if (starts(pci_class, "0x068001")) return Kind::kCpu;
  if (starts(pci_class, "0x03")) return Kind::kGpu;
  if (starts(pci_class, "0x02")) return Kind::kNic;
  return Kind::kPci;
}

// Returns the bandwidth of a function's link. NCCL knows the speeds as the kernel writes them.
float pci_gb_per_s(const pugi::xml_node& pci) {
  static constexpr struct {
    const char* text;
    int lane;  // 100 megabits per second of one lane
  } kSpeeds[] = {{"2.5 GT/s", 15},       {"5 GT/s", 30},          {"8 GT/s", 60},
                 {"16 GT/s", 120},       {"32 GT/s", 240},        {"5.0 GT/s PCIe", 30},
                 {"8.0 GT/s PCIe", 60},  {"16.0 GT/s PCIe", 120}, {"32.0 GT/s PCIe", 240},
                 {"64.0 GT/s PCIe", 480}};
  int width = number_of(pci, "link_width", 0);
  if (width == 0) width = 16;
  int lane = 60;
  for (const auto& speed : kSpeeds) {
    if (!starts(pci.attribute("link_speed").value(), speed.text)) continue;
    lane = speed.lane;
    break;
  }
  return static_cast<float>(width * lane / 80.0);
}

uint64_t ids_of(const pugi::xml_node& pci) {
  uint64_t ids = 0;
  int shift = 48;
  for (const char* part : {"vendor", "device", "subsystem_vendor", "subsystem_device"}) {
    ids += static_cast<uint64_t>(std::strtol(pci.attribute(part).value(), nullptr, 0)) << shift;
    shift -= 16;
  }
  return ids;
}

// Whether an earlier <gpu> of the function stands for the same device.
bool shares_device(const pugi::xml_node& gpu, const ReleaseRules& rules) {
  for (pugi::xml_node other = gpu.previous_sibling("gpu"); other;
       other = other.previous_sibling("gpu")) {
    if (!rules.partitions || number_of(other, "mlopart", -1) == number_of(gpu, "mlopart", -1)) {
      return true;
    }
  }
  return false;
}

class Reader {
 public:
  explicit Reader(const ReleaseRules& rules) : rules_(rules) {}

  NodeGraph read(const pugi::xml_node& system) {
    for (const pugi::xml_node cpu : system.children("cpu")) add_cpu(cpu);
    visit(system, "nvlink", [this](const pugi::xml_node& node) { add_nvlink(node); });
    visit(system, "c2c", [this](const pugi::xml_node& node) { add_c2c(node); });
    if (rules_.pci_links) {
      visit(system, "pcilink", [this](const pugi::xml_node& node) { add_pci_link(node); });
    }
    graph_.merge_broadcom(rules_.skips_first_switch);
    connect_cpus();
    graph_.sort_links();
    return std::move(graph_);
  }

 private:
  template <class Action>
  void visit(const pugi::xml_node& node, const char* name, const Action& action) {
    for (const pugi::xml_node child : node.children()) {
      if (is(child, name)) {
        action(child);
      } else {
        visit(child, name, action);
      }
    }
  }

  void add_cpu(const pugi::xml_node& node) {
    const Ref cpu = graph_.add(Kind::kCpu, number_of(node, "numaid", -1));
    graph_.at(cpu).cpu = CpuFacts{node.attribute("arch").value(), node.attribute("vendor").value(),
                                  number_of(node, "familyid", 0), number_of(node, "modelid", 0)};
    for (const pugi::xml_node child : node.children()) {
      if (is(child, "pci")) add_pci(child, cpu);
      if (!is(child, "nic")) continue;
      // All NICs directly under CPUs are one node, under the first of these CPUs.
      Ref nic = graph_.find(Kind::kNic, 0);
      if (!graph_.valid(nic)) {
        nic = graph_.add(Kind::kNic, 0);
        graph_.link_both(cpu, nic, kPci, kLocal);
      }
      add_nets(child, nic);
    }
  }

  void add_pci(const pugi::xml_node& pci, Ref parent) {
    const float bandwidth = pci_gb_per_s(pci);
    const int64_t id = bus_number(pci.attribute("busid").value());
    Kind kind = kind_of_class(pci.attribute("class").value());
    if (pci.child("gpu")) {
      if (!rules_.device_nodes) kind = Kind::kGpu;
      add_gpus(pci, parent, id, bandwidth);
    }
    if (pci.child("nic")) {
      add_nic(pci.child("nic"), parent, id, bandwidth);
    } else if (kind == Kind::kPci) {
      const Ref node = graph_.add(Kind::kPci, id);
      graph_.at(node).pci_ids = ids_of(pci);
      for (const pugi::xml_node child : pci.children()) {
        if (is(child, "pci")) add_pci(child, node);
      }
      graph_.link_both(node, parent, kPci, bandwidth);
    }
  }

  void add_nic(const pugi::xml_node& nic, Ref parent, int64_t id, float bandwidth) {
    if (rules_.functions_are_one_nic) id &= ~int64_t{15};
    Ref node = graph_.find(Kind::kNic, id);
    const bool fresh = !graph_.valid(node);
    if (fresh) node = graph_.add(Kind::kNic, id);
    add_nets(nic, node);
    if (fresh) graph_.link_both(node, parent, kPci, bandwidth);
  }

  void add_nets(const pugi::xml_node& nic, Ref node) {
    for (const pugi::xml_node net : nic.children("net")) {
      const int dev = number_of(net, "dev", -1);
      const Ref added = graph_.add(Kind::kNet, dev);
      graph_.at(added).dev = dev;
      graph_.at(added).gpudirect = number_of(net, "gdr", 0) != 0;
      int mbps = number_of(net, "speed", 0);
      if (mbps <= 0) mbps = 10000;
      graph_.link_both(node, added, kLinkNet, static_cast<float>(mbps / 8000.0));
    }
  }

  void add_gpus(const pugi::xml_node& pci, Ref parent, int64_t id, float bandwidth) {
    if (!rules_.device_nodes) {
      graph_.link_both(add_gpu(pci.child("gpu"), id), parent, kPci, bandwidth);
      return;
    }
    for (const pugi::xml_node gpu : pci.children("gpu")) {
      const Ref device = device_of(gpu, parent, id, bandwidth);
      const Ref added = add_gpu(gpu, id);
      graph_.at(added).parent = device.index;
      graph_.link_both(device, added, kLoc, kLocal);
    }
  }

  Ref add_gpu(const pugi::xml_node& gpu, int64_t id) {
    const Ref added = graph_.add(Kind::kGpu, id);
    Node& node = graph_.at(added);
    node.rank = number_of(gpu, "rank", -1);
    node.dev = number_of(gpu, "dev", -1);
    node.capability = number_of(gpu, "sm", 0);
    node.gpudirect = number_of(gpu, "gdr", 0) != 0;
    node.partition = rules_.partitions ? number_of(gpu, "mlopart", -1) : -1;
    return added;
  }

  // Returns the device that a <gpu> belongs to.
  int64_t device_id(const pugi::xml_node& gpu, int64_t id) const {
    if (!rules_.partitions) return id;
    if ((id & kPartitionBits) != 0) throw Failure("a GPU is at a function other than .0, .4 or .8");
    const int partition = number_of(gpu, "mlopart", -1);
    if (partition == -1) return id;
    if (partition >= kMostPartitions) throw Failure("a GPU has more than two partitions");
    return id | (((int64_t{partition} << 1) | 1) & kPartitionBits);
  }

  Ref device_of(const pugi::xml_node& gpu, Ref parent, int64_t bus, float bandwidth) {
    const int64_t id = device_id(gpu, bus);
    const Ref known = graph_.find(Kind::kDev, id);
    if (graph_.valid(known)) return known;
    const Ref device = graph_.add(Kind::kDev, id);
    graph_.at(device).capability = number_of(gpu, "sm", 0);
    graph_.at(device).dev = number_of(gpu, "dev", -1);
    graph_.link_both(device, parent, kPci, bandwidth);
    for (const Ref sibling : devices_at(id)) {
      if (sibling != device) graph_.link_both(device, sibling, kLoc, kBetweenHalves);
    }
    return device;
  }

  // Returns the devices of the function that `id` belongs to.
  std::vector<Ref> devices_at(int64_t id) {
    std::vector<Ref> devices;
    const int64_t bits = rules_.partitions ? kPartitionBits : 0;
    for (size_t index = 0; index < graph_.count(Kind::kDev); ++index) {
      if ((graph_.at(Kind::kDev, index).id & ~bits) == (id & ~bits)) {
        devices.push_back(Ref{Kind::kDev, index});
      }
    }
    return devices;
  }

  // Returns the node that the NVLinks and C2C links of a <gpu> begin at.
  Ref link_end(const pugi::xml_node& gpu) {
    const int64_t bus = bus_number(gpu.parent().attribute("busid").value());
    const Ref end = rules_.device_nodes ? graph_.find(Kind::kDev, device_id(gpu, bus))
                                        : graph_.find(Kind::kGpu, bus);
    if (!graph_.valid(end)) throw Failure("a link begins at no GPU");
    return end;
  }

  std::vector<Ref> link_targets(int64_t bus) {
    if (rules_.device_nodes) return devices_at(bus);
    const Ref gpu = graph_.find(Kind::kGpu, bus);
    return graph_.valid(gpu) ? std::vector<Ref>{gpu} : std::vector<Ref>{};
  }

  float nvlink_gb_per_s(int capability) const {
    if (capability >= 100) return rules_.nvlink_sm100;
    if (capability >= 90) return 20.6F;
    if (capability == 86) return 12;
    if (capability >= 70) return 20;
    return capability >= 60 ? 18 : 20;
  }

  void add_nvlink(const pugi::xml_node& link) {
    const pugi::xml_node gpu = link.parent();
    if (rules_.device_nodes && shares_device(gpu, rules_)) return;
    const Ref from = link_end(gpu);
    const float bandwidth = static_cast<float>(number_of(link, "count", 0)) *
                            nvlink_gb_per_s(graph_.at(from).capability);
    const float halves =
        rules_.device_nodes ? static_cast<float>(devices_at(graph_.at(from).id).size()) : 1;
    const Kind target = kind_of_class(link.attribute("tclass").value());
    if (target == Kind::kGpu) {
      const std::vector<Ref> ends = link_targets(bus_number(link.attribute("target").value()));
      for (const Ref end : ends) {
        graph_.link(from, end, kNvl, bandwidth / static_cast<float>(ends.size()) / halves);
      }
      return;
    }
    Ref remote{Kind::kNvs, 0};
    if (target == Kind::kCpu) {
      remote = cpu_above(from, nullptr, 0);
      if (!graph_.valid(remote)) return;
    } else if (graph_.count(Kind::kNvs) == 0) {
      graph_.add(Kind::kNvs, 0);
    }
    graph_.link_both(from, remote, kNvl, bandwidth / halves);
  }

  void add_c2c(const pugi::xml_node& link) {
    const pugi::xml_node gpu = link.parent();
    if (rules_.device_nodes && shares_device(gpu, rules_)) return;
    const Ref from = link_end(gpu);
    const auto bandwidth =
        static_cast<float>(number_of(link, "bw", 0) * number_of(link, "count", 0) / 1000.0);
    const Ref cpu = cpu_above(from, nullptr, 0);
    if (!graph_.valid(cpu)) return;
    const int type = rules_.c2c_links ? kC2c : kNvl;
    if (!rules_.device_nodes || devices_at(graph_.at(from).id).size() < 2) {
      graph_.link_both(from, cpu, type, bandwidth);
      return;
    }
    // The partitions of a GPU share its link to the CPU.
    const int64_t id = graph_.at(from).id & ~kPartitionBits;
    Ref bridge = graph_.find(Kind::kCxb, id);
    if (!graph_.valid(bridge)) {
      bridge = graph_.add(Kind::kCxb, id);
      graph_.link_both(bridge, cpu, type, bandwidth);
    }
    graph_.link_both(from, bridge, type, bandwidth);
  }

  void add_pci_link(const pugi::xml_node& link) {
    const pugi::xml_node pci = link.parent();
    const Ref from = graph_.find(Kind::kPci, bus_number(pci.attribute("busid").value()));
    if (!graph_.valid(from)) throw Failure("a <pcilink> begins at no switch");
    const Ref to = graph_.find(Kind::kPci, bus_number(link.attribute("target").value()));
    if (graph_.valid(to)) graph_.link(from, to, kLoc, kLocal);
  }

  // Returns the first CPU that NCCL finds on its way up; one past the last where it finds none.
  Ref cpu_above(Ref ref, const Ref* from, int depth) {
    const Ref none{Kind::kCpu, graph_.count(Kind::kCpu)};
    if (ref.kind == Kind::kCpu) return ref;
    if (depth > kDeepestCpuSearch) throw Failure("the search for the CPU of a GPU does not end");
    const Node& node = graph_.at(ref);
    for (size_t link = 0; link < node.links; ++link) {
      const Link& up = node.slots[link];
      if (up.type != kPci) continue;
      if (!rules_.cpu_search_turns_back && from != nullptr && up.to == *from) continue;
      const bool passes = up.to.kind == Kind::kPci || up.to.kind == Kind::kCpu;
      if (rules_.cpu_search_skips_devices && !passes) continue;
      const Ref cpu = cpu_above(up.to, &ref, depth + 1);
      if (graph_.valid(cpu)) return cpu;
    }
    return none;
  }

  float between_cpus(const CpuFacts& cpu) const {
    if (starts(cpu.arch.c_str(), "ppc64")) return 32;
    if (starts(cpu.arch.c_str(), "arm64")) return 6;
    if (!starts(cpu.arch.c_str(), "x86_64")) return kLocal;
    if (starts(cpu.vendor.c_str(), "AuthenticAMD")) return 16;
    if (starts(cpu.vendor.c_str(), "CentaurHauls") || starts(cpu.vendor.c_str(), "  Shanghai  ")) {
      return cpu.family == 7 && cpu.model == 0x5b ? 9 : 6;
    }
    if (!starts(cpu.vendor.c_str(), "GenuineIntel")) return kLocal;
    if (cpu.family != 6 || cpu.model < 0x55) return 6;
    if (!rules_.newer_intel || cpu.model < 0x8f) return 10;
    return cpu.model < 0xcf ? 22 : 40;
  }

  void connect_cpus() {
    for (size_t a = 0; a < graph_.count(Kind::kCpu); ++a) {
      const float bandwidth = between_cpus(graph_.at(Kind::kCpu, a).cpu);
      for (size_t b = 0; b < graph_.count(Kind::kCpu); ++b) {
        if (a != b) graph_.link(Ref{Kind::kCpu, a}, Ref{Kind::kCpu, b}, kSys, bandwidth);
      }
    }
  }

  ReleaseRules rules_;
  NodeGraph graph_;
};

}  // namespace

NodeGraph build_graph(const pugi::xml_document& tree, const ReleaseRules& rules) {
  return Reader(rules).read(tree.child("system"));
}

}  // namespace gdr::topology::oracle
