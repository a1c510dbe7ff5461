#include "topology/sources/nccl_xml_writer.h"

#include <cmath>
#include <cstdio>
#include <pugixml.hpp>
#include <set>
#include <sstream>

namespace gdr::topology {
namespace {

constexpr size_t kMaxAttribute = 250;  // MAX_STR_LEN of NCCL's src/graph/xml.h is 255

std::string hex(uint32_t number, int digits) {
  char text[16];
  std::snprintf(text, sizeof(text), "0x%0*x", digits, number);
  return text;
}

// Returns the speed as the kernel and NCCL write it, whatever the locale: "2.5 GT/s PCIe".
std::string speed_text(double gt_per_s) {
  if (gt_per_s <= 0) return "";
  long tenths = std::lround(gt_per_s * 10);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " GT/s PCIe";
}

void set(pugi::xml_node node, const char* name, const std::string& value) {
  node.append_attribute(name).set_value(value.c_str());
}

template <class T>
pugi::xml_node add_pci(pugi::xml_node parent, const Bdf& bdf, const T& device) {
  pugi::xml_node node = parent.append_child("pci");
  set(node, "busid", bdf.to_string());
  set(node, "class", hex(device.class_code, 6));
  set(node, "vendor", hex(device.ids.vendor, 4));
  set(node, "device", hex(device.ids.device, 4));
  set(node, "subsystem_vendor", hex(device.ids.subsystem_vendor, 4));
  set(node, "subsystem_device", hex(device.ids.subsystem_device, 4));
  set(node, "link_speed", speed_text(device.link.gt_per_s));
  set(node, "link_width", std::to_string(device.link.width));
  return node;
}

// Writes the tree of <cpu> and <pci> elements.
class Writer {
 public:
  explicit Writer(const Machine& machine) : machine_(machine) {}

  std::string text() {
    pugi::xml_document document;
    pugi::xml_node system = document.append_child("system");
    set(system, "version", "1");
    for (size_t i = 0; i < machine_.numa_nodes.size(); ++i) {
      add_children(add_cpu(system, machine_.numa_nodes[i]), -1, static_cast<int>(i));
    }
    if (machine_.numa_nodes.empty()) add_children(add_cpu(system, NumaNode{}), -1, -1);
    std::ostringstream out;
    document.save(out, "  ", pugi::format_indent | pugi::format_no_declaration);
    return out.str();
  }

 private:
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

  void add_children(pugi::xml_node node, int parent, int numa) {
    auto is_here = [&](const Attachment& at) {
      return at.parent == parent && (parent >= 0 || at.numa == numa);
    };
    for (size_t i = 0; i < machine_.switches.size(); ++i) {
      const Switch& one = machine_.switches[i];
      if (is_here(one.at)) add_children(add_pci(node, one.bdf, one), static_cast<int>(i), numa);
    }
    for (const Gpu& gpu : machine_.gpus) {
      if (is_here(gpu.at)) add_pci(node, gpu.bdf, gpu);
    }
    for (const Hca& hca : machine_.hcas) {
      // Several HCAs may belong to one function. An HCA without a function is attached by NCCL.
      if (!hca.bdf || !is_here(hca.at) || !written_.insert(*hca.bdf).second) continue;
      add_pci(node, *hca.bdf, hca);
    }
  }

  const Machine& machine_;
  std::set<Bdf> written_;  // functions of HCAs
};

}  // namespace

std::string nccl_xml_text_of(const Machine& machine) { return Writer(machine).text(); }

}  // namespace gdr::topology
