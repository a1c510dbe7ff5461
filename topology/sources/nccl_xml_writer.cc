#include "topology/sources/nccl_xml_writer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <pugixml.hpp>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>
#include <vector>

namespace gdr::topology {
namespace {

constexpr uint32_t kMadeUpDomain = 0xffff;  // of the switches in grouping.cc and in clouds' files
constexpr size_t kMaxAttribute = 250;       // MAX_STR_LEN of NCCL's src/graph/xml.h is 255

std::string hex(uint32_t number, int digits) {
  char text[16];
  std::snprintf(text, sizeof(text), "0x%0*x", digits, number);
  return text;
}

// Returns the speed as the kernel and NCCL write it, whatever the locale: "2.5 GT/s PCIe".
std::string speed_text(double gt_per_s) {
  long tenths = std::lround(gt_per_s * 10);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " GT/s PCIe";
}

void set(pugi::xml_node node, const char* name, const std::string& value) {
  node.append_attribute(name).set_value(value.c_str());
}

void set_id(pugi::xml_node node, const char* name, uint16_t id) {
  if (id != 0) set(node, name, hex(id, 4));
}

// Returns the link to write. No system shows a switch that was made up, so NCCL would assume a slow
// link where the file states none; the greatest one that every release of NCCL knows limits
// nothing.
PciLink link_to_write(const Bdf& bdf, const PciLink& link) {
  bool made_up = bdf.domain == kMadeUpDomain;
  return made_up && (link.gt_per_s <= 0 || link.width <= 0) ? PciLink{32, 16} : link;
}

template <class T>
pugi::xml_node add_pci(pugi::xml_node parent, const Bdf& bdf, const T& device) {
  pugi::xml_node node = parent.append_child("pci");
  PciLink link = link_to_write(bdf, device.link);
  set(node, "busid", bdf.to_string());
  if (device.class_code != 0) set(node, "class", hex(device.class_code, 6));
  set_id(node, "vendor", device.ids.vendor);
  set_id(node, "device", device.ids.device);
  set_id(node, "subsystem_vendor", device.ids.subsystem_vendor);
  set_id(node, "subsystem_device", device.ids.subsystem_device);
  if (link.gt_per_s > 0) set(node, "link_speed", speed_text(link.gt_per_s));
  if (link.width > 0) set(node, "link_width", std::to_string(link.width));
  return node;
}

// A device below a <cpu> or <pci>. NCCL keeps devices in the order of its file, and orders those
// that it finds by itself by address.
struct Child {
  enum class Kind { kSwitch, kGpu, kHca };
  int order;
  Bdf bdf;
  Kind kind;
  size_t index;  // in the machine's vector of this kind
  auto key() const { return std::tuple(order < 0, order, bdf, kind, index); }
};

// Writes the tree of <cpu> and <pci> elements.
class Writer {
 public:
  explicit Writer(const Machine& machine) : machine_(machine) {}

  std::string text() {
    pugi::xml_document document;
    pugi::xml_node system = document.append_child("system");
    set(system, "version", "1");
    for (int i : nodes_in_order()) {
      add_children(add_cpu(system, machine_.numa_nodes[i]), -1, i);
    }
    if (machine_.numa_nodes.empty()) add_children(add_cpu(system, NumaNode{}), -1, -1);
    std::ostringstream out;
    document.save(out, "  ", pugi::format_indent | pugi::format_no_declaration);
    return out.str();
  }

 private:
  std::vector<int> nodes_in_order() const {
    std::vector<int> nodes(machine_.numa_nodes.size());
    std::iota(nodes.begin(), nodes.end(), 0);
    auto key = [&](int i) {
      return std::pair(machine_.numa_nodes[i].order < 0, machine_.numa_nodes[i].order);
    };
    std::stable_sort(nodes.begin(), nodes.end(), [&](int a, int b) { return key(a) < key(b); });
    return nodes;
  }

  pugi::xml_node add_cpu(pugi::xml_node system, const NumaNode& node) {
    const Cpu& cpu = machine_.cpu;
    pugi::xml_node child = system.append_child("cpu");
    set(child, "numaid", std::to_string(node.id));
    // NCCL fails on longer attributes, and reads this one from sysfs where it is missing.
    if (!node.cpus.empty() && node.cpus.size() <= kMaxAttribute) {
      set(child, "affinity", node.cpus);
    }
    if (!cpu.arch.empty()) set(child, "arch", cpu.arch);
    if (!cpu.vendor.empty()) set(child, "vendor", cpu.vendor);
    if (cpu.family > 0) {  // then the model is known too, and may be 0
      set(child, "familyid", std::to_string(cpu.family));
      set(child, "modelid", std::to_string(cpu.model));
    }
    return child;
  }

  // Returns the devices below a switch or, without one, a NUMA node. Devices of one function, such
  // as the partitions of a GPU, are one. NCCL itself attaches an HCA that is on no function.
  std::vector<Child> children_of(int parent, int numa) const {
    std::vector<Child> children;
    auto add = [&](Child::Kind kind, size_t index, const Attachment& at, const Bdf& bdf) {
      bool here = at.parent == parent && (parent >= 0 || at.numa == numa);
      if (here) children.push_back(Child{at.order, bdf, kind, index});
    };
    for (size_t i = 0; i < machine_.switches.size(); ++i) {
      add(Child::Kind::kSwitch, i, machine_.switches[i].at, machine_.switches[i].bdf);
    }
    for (size_t i = 0; i < machine_.gpus.size(); ++i) {
      add(Child::Kind::kGpu, i, machine_.gpus[i].at, machine_.gpus[i].bdf);
    }
    for (size_t i = 0; i < machine_.hcas.size(); ++i) {
      if (machine_.hcas[i].bdf) {
        add(Child::Kind::kHca, i, machine_.hcas[i].at, *machine_.hcas[i].bdf);
      }
    }
    std::sort(children.begin(), children.end(),
              [](const Child& a, const Child& b) { return a.key() < b.key(); });
    return children;
  }

  void add_children(pugi::xml_node node, int parent, int numa) {
    for (const Child& child : children_of(parent, numa)) {
      if (child.kind == Child::Kind::kSwitch) {
        add_switch(node, static_cast<int>(child.index), numa);
      } else if (!written_.insert(child.bdf).second) {
        continue;
      } else if (child.kind == Child::Kind::kGpu) {
        add_pci(node, child.bdf, machine_.gpus[child.index]);
      } else {
        add_pci(node, child.bdf, machine_.hcas[child.index]);
      }
    }
  }

  void add_switch(pugi::xml_node above, int index, int numa) {
    const Switch& one = machine_.switches[index];
    pugi::xml_node node = add_pci(above, one.bdf, one);
    for (const Bdf& peer : one.peers) set(node.append_child("pcilink"), "target", peer.to_string());
    add_children(node, index, numa);
  }

  const Machine& machine_;
  std::set<Bdf> written_;  // functions of GPUs and HCAs
};

}  // namespace

std::string nccl_xml_text_of(const Machine& machine) { return Writer(machine).text(); }

}  // namespace gdr::topology
