#include "topology/render/nccl_xml_writer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <pugixml.hpp>
#include <set>
#include <sstream>

namespace gdr::topology {
namespace {

std::string hex(uint32_t number, int digits) {
  char text[16];
  std::snprintf(text, sizeof(text), "0x%0*x", digits, number);
  return text;
}

// As NCCL words it, whatever the locale: "2.5 GT/s PCIe", "16.0 GT/s PCIe".
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
    if (!node.cpus.empty()) set(child, "affinity", node.cpus);
    if (!cpu.arch.empty()) set(child, "arch", cpu.arch);
    if (!cpu.vendor.empty()) set(child, "vendor", cpu.vendor);
    if (cpu.family > 0) {  // with it the model is known too, and may be 0
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
      // Several HCAs may be of one function, and one without a function NCCL places on its own.
      if (!hca.bdf || !is_here(hca.at) || !written_.insert(*hca.bdf).second) continue;
      add_pci(node, *hca.bdf, hca);
    }
  }

  const Machine& machine_;
  std::set<Bdf> written_;  // functions of HCAs
};

// GPUs with the same rails.
struct Group {
  std::set<int> rails;
  std::vector<size_t> gpus;
};

std::vector<Group> groups_of(const RailPlan& plan) {
  std::vector<Group> groups;
  for (size_t i = 0; i < plan.gpus.size(); ++i) {
    const std::vector<int>& own = plan.gpus[i].rails;
    if (own.empty()) continue;
    std::set<int> rails(own.begin(), own.end());
    auto found = std::find_if(groups.begin(), groups.end(),
                              [&](const Group& group) { return group.rails == rails; });
    if (found == groups.end()) found = groups.insert(groups.end(), Group{rails, {}});
    found->gpus.push_back(i);
  }
  return groups;
}

// The group that each HCA goes to; -1: none. It is the first that has the HCA as a GPU's first
// rail, or else as any.
std::vector<int> groups_of_hcas(const Machine& machine, const RailPlan& plan,
                                const std::vector<Group>& groups) {
  std::vector<int> group_of(machine.hcas.size(), -1);
  auto take = [&](int rail, size_t group) {
    int& taken = group_of[plan.rails[rail].port.hca];
    if (taken < 0) taken = static_cast<int>(group);
  };
  for (size_t i = 0; i < groups.size(); ++i) {
    for (size_t gpu : groups[i].gpus) take(plan.gpus[gpu].rails.front(), i);
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    for (int rail : groups[i].rails) take(rail, i);
  }
  return group_of;
}

// An address that no machine has: ffff:ff:01.0, 02.0 and so on, later with other functions.
Bdf made_up_address(size_t ordinal) {
  size_t slot = ordinal + 1;
  return Bdf{0xffff, static_cast<uint8_t>(0xff - slot / 256), static_cast<uint8_t>(slot % 32),
             static_cast<uint8_t>(slot / 32 % 8)};
}

// Adds the group's switch, moves its GPUs there, and gives its index.
int move_gpus(Machine* machine, const Group& group, size_t ordinal) {
  const Gpu& first = machine->gpus[group.gpus.front()];
  Switch made;
  made.bdf = made_up_address(ordinal);
  made.at = Attachment{-1, first.at.numa, first.at.host_bridge};
  made.link = first.link;  // NCCL takes a link that is not known for a slow one
  Attachment at = made.at;
  at.parent = static_cast<int>(machine->switches.size());
  machine->switches.push_back(made);
  for (size_t gpu : group.gpus) machine->gpus[gpu].at = at;
  return at.parent;
}

template <class F>
void for_each_attachment(Machine* machine, F&& change) {
  for (Switch& one : machine->switches) change(&one.at);
  for (Gpu& gpu : machine->gpus) change(&gpu.at);
  for (Hca& hca : machine->hcas) change(&hca.at);
}

// Drops the first `count` switches where no device is below them.
void drop_empty(Machine* machine, size_t count) {
  std::vector<bool> needed(machine->switches.size(), false);
  auto need = [&](const Attachment& at) {
    for (int i = at.parent; i >= 0 && !needed[i]; i = machine->switches[i].at.parent) {
      needed[i] = true;
    }
  };
  for (const Gpu& gpu : machine->gpus) need(gpu.at);
  for (const Hca& hca : machine->hcas) need(hca.at);
  std::vector<int> renumbered(machine->switches.size(), -1);
  std::vector<Switch> kept;
  for (size_t i = 0; i < machine->switches.size(); ++i) {
    if (i < count && !needed[i]) continue;
    renumbered[i] = static_cast<int>(kept.size());
    kept.push_back(machine->switches[i]);
  }
  machine->switches = std::move(kept);
  for_each_attachment(machine, [&](Attachment* at) {
    if (at->parent >= 0) at->parent = renumbered[at->parent];
  });
}

}  // namespace

std::string nccl_xml_text_of(const Machine& machine) { return Writer(machine).text(); }

Machine grouped_by_rails(const Machine& machine, const RailPlan& plan) {
  Machine grouped = machine;
  std::vector<Group> groups = groups_of(plan);
  std::vector<int> group_of = groups_of_hcas(machine, plan, groups);
  std::vector<int> switches;
  for (size_t i = 0; i < groups.size(); ++i) {
    switches.push_back(move_gpus(&grouped, groups[i], i));
  }
  for (size_t i = 0; i < grouped.hcas.size(); ++i) {
    if (group_of[i] < 0) continue;
    grouped.hcas[i].at = grouped.switches[switches[group_of[i]]].at;
    grouped.hcas[i].at.parent = switches[group_of[i]];
  }
  drop_empty(&grouped, machine.switches.size());
  sort(&grouped);
  return grouped;
}

}  // namespace gdr::topology
