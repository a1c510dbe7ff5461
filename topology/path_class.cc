#include "topology/path_class.h"

#include <algorithm>
#include <set>

namespace gdr::topology {
namespace {

constexpr const char* kNames[kPathClasses] = {"LOC", "NVL", "NVB", "C2C", "PIX",
                                              "PXB", "P2C", "PXN", "PHB", "SYS"};

// Returns whether the switch counts as a part of the one above it.
bool is_part(const Machine& machine, int index) {
  int above = machine.switches[index].at.parent;
  if (above < 0 || is_part(machine, above)) return false;
  int generation = broadcom_generation(machine.switches[above].ids, BroadcomLevel::kOuter);
  return generation != 0 &&
         broadcom_generation(machine.switches[index].ids, BroadcomLevel::kInner) == generation;
}

int topmost(const Machine& machine, int at) {
  while (machine.switches[at].at.parent >= 0) at = machine.switches[at].at.parent;
  return at;
}

// Returns the switch with this address, or -1.
int switch_at(const Machine& machine, const Bdf& bdf) {
  for (size_t i = 0; i < machine.switches.size(); ++i) {
    if (machine.switches[i].bdf == bdf) return static_cast<int>(i);
  }
  return -1;
}

// Returns the topmost switches that are linked to `top` by switches alone, itself included.
std::set<int> linked_tops(const Machine& machine, int top) {
  std::set<int> tops{top};
  for (bool grown = true; grown;) {
    grown = false;
    for (size_t i = 0; i < machine.switches.size(); ++i) {
      for (const Bdf& peer : machine.switches[i].peers) {
        const int other = switch_at(machine, peer);
        if (other < 0) continue;
        const int a = topmost(machine, static_cast<int>(i)), b = topmost(machine, other);
        if (tops.count(a) == tops.count(b)) continue;
        tops.insert({a, b});
        grown = true;
      }
    }
  }
  return tops;
}

bool linked_by_switches(const Machine& machine, int a, int b) {
  const int from = topmost(machine, a), to = topmost(machine, b);
  if (from == to) return true;
  const bool has_peers = std::any_of(machine.switches.begin(), machine.switches.end(),
                                     [](const Switch& one) { return !one.peers.empty(); });
  return has_peers && linked_tops(machine, from).count(to) > 0;
}

bool has_link(const Gpu& gpu, NvLink::To to) {
  return std::any_of(gpu.nvlinks.begin(), gpu.nvlinks.end(),
                     [to](const NvLink& link) { return link.to == to; });
}

bool links_to(const Gpu& gpu, const Gpu& other) {
  return std::any_of(gpu.nvlinks.begin(), gpu.nvlinks.end(), [&](const NvLink& link) {
    return link.to == NvLink::To::kGpu && link.gpu == other.bdf;
  });
}

// Returns whether NVLink connects the GPUs. All NVSwitches of a machine are one fabric.
bool nvlink(const Gpu& a, const Gpu& b) {
  return links_to(a, b) || links_to(b, a) ||
         (has_link(a, NvLink::To::kSwitch) && has_link(b, NvLink::To::kSwitch));
}

PathClass between_gpus(const Machine& machine, size_t a, size_t b) {
  const std::vector<Gpu>& gpus = machine.gpus;
  if (a == b || gpus[a].bdf == gpus[b].bdf) return PathClass::kLoc;
  if (nvlink(gpus[a], gpus[b])) return PathClass::kNvl;
  for (const Gpu& between : gpus) {
    if (nvlink(gpus[a], between) && nvlink(between, gpus[b])) return PathClass::kNvb;
  }
  const bool over_c2c =
      gpus[a].c2c_links > 0 && gpus[b].c2c_links > 0 && gpus[a].at.numa == gpus[b].at.numa;
  return over_c2c ? PathClass::kC2c : pci_path(machine, gpus[a].at, gpus[b].at);
}

}  // namespace

int broadcom_generation(const PciIds& ids, BroadcomLevel level) {
  if (ids.vendor != 0x1000 || ids.subsystem_vendor != 0x1000) return 0;
  const int variant = ids.subsystem_device >> 12;
  if (ids.device == 0xc010 && variant == 0xa) return 4;
  if (ids.device == 0xc030 && variant == (level == BroadcomLevel::kInner ? 1 : 0)) return 5;
  return 0;
}

const char* to_string(PathClass path) { return kNames[static_cast<int>(path)]; }

int counted_switch(const Machine& machine, const Attachment& at) {
  return at.parent >= 0 && is_part(machine, at.parent) ? machine.switches[at.parent].at.parent
                                                       : at.parent;
}

PathClass pci_path(const Machine& machine, const Attachment& a, const Attachment& b) {
  int from = counted_switch(machine, a), to = counted_switch(machine, b);
  if (from >= 0 && from == to) return PathClass::kPix;
  if (from >= 0 && to >= 0 && linked_by_switches(machine, from, to)) return PathClass::kPxb;
  return a.numa == b.numa ? PathClass::kPhb : PathClass::kSys;
}

const char* display_name(PathClass path, const Attachment& a, const Attachment& b) {
  bool two_bridges = a.host_bridge >= 0 && b.host_bridge >= 0 && a.host_bridge != b.host_bridge;
  return path == PathClass::kPhb && two_bridges ? "NODE" : to_string(path);
}

PathTable::PathTable(const Machine& machine)
    : gpus_(machine.gpus.size()), hcas_(machine.hcas.size()) {
  for (size_t a = 0; a < gpus_; ++a) {
    for (size_t b = 0; b < gpus_; ++b) gpu_gpu_.push_back(between_gpus(machine, a, b));
    for (const Hca& hca : machine.hcas) {
      gpu_hca_.push_back(pci_path(machine, machine.gpus[a].at, hca.at));
    }
  }
  for (size_t a = 0; a < hcas_; ++a) {
    for (size_t b = 0; b < hcas_; ++b) {
      hca_hca_.push_back(a == b ? PathClass::kLoc
                                : pci_path(machine, machine.hcas[a].at, machine.hcas[b].at));
    }
  }
}

}  // namespace gdr::topology
