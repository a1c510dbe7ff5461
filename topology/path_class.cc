#include "topology/path_class.h"

#include <algorithm>

namespace gdr::topology {
namespace {

constexpr const char* kNames[kPathClasses] = {"LOC", "NVL", "NVB", "C2C", "PIX",
                                              "PXB", "P2C", "PXN", "PHB", "SYS"};

// Returns the PCIe generation (4 or 5) of a Broadcom switch whose inner switches count as parts of
// it, or 0 for any other switch. NCCL recognises these by their ids (ncclTopoFlattenBcmSwitches in
// src/graph/topo.cc). `inner`: whether the ids are those of the switch below.
int broadcom_generation(const PciIds& ids, bool inner) {
  if (ids.vendor != 0x1000 || ids.subsystem_vendor != 0x1000) return 0;
  int variant = ids.subsystem_device >> 12;
  if (ids.device == 0xc010 && variant == 0xa) return 4;
  if (ids.device == 0xc030 && variant == (inner ? 1 : 0)) return 5;
  return 0;
}

// Returns whether the switch counts as a part of the one above it.
bool is_part(const Machine& machine, int index) {
  int above = machine.switches[index].at.parent;
  if (above < 0 || is_part(machine, above)) return false;
  int generation = broadcom_generation(machine.switches[above].ids, false);
  return generation != 0 && broadcom_generation(machine.switches[index].ids, true) == generation;
}

bool is_above(const Machine& machine, int ancestor, int at) {
  for (; at >= 0; at = machine.switches[at].at.parent) {
    if (at == ancestor) return true;
  }
  return false;
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
  if (a == b) return PathClass::kLoc;
  const std::vector<Gpu>& gpus = machine.gpus;
  if (nvlink(gpus[a], gpus[b])) return PathClass::kNvl;
  for (const Gpu& between : gpus) {
    if (nvlink(gpus[a], between) && nvlink(between, gpus[b])) return PathClass::kNvb;
  }
  return pci_path(machine, gpus[a].at, gpus[b].at);
}

PathClass between_gpu_and_hca(const Machine& machine, const Gpu& gpu, const Hca& hca) {
  PathClass path = pci_path(machine, gpu.at, hca.at);
  bool over_c2c = gpu.c2c_links > 0 && path == PathClass::kPhb;
  return over_c2c ? PathClass::kP2c : path;
}

}  // namespace

const char* to_string(PathClass path) { return kNames[static_cast<int>(path)]; }

int counted_switch(const Machine& machine, const Attachment& at) {
  return at.parent >= 0 && is_part(machine, at.parent) ? machine.switches[at.parent].at.parent
                                                       : at.parent;
}

PathClass pci_path(const Machine& machine, const Attachment& a, const Attachment& b) {
  int from = counted_switch(machine, a), to = counted_switch(machine, b);
  if (from >= 0 && from == to) return PathClass::kPix;
  for (int at = from; at >= 0; at = machine.switches[at].at.parent) {
    if (is_above(machine, at, to)) return PathClass::kPxb;
  }
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
      gpu_hca_.push_back(between_gpu_and_hca(machine, machine.gpus[a], hca));
    }
  }
  for (size_t a = 0; a < hcas_; ++a) {
    for (size_t b = 0; b < hcas_; ++b) {
      hca_hca_.push_back(a == b ? PathClass::kLoc
                                : pci_path(machine, machine.hcas[a].at, machine.hcas[b].at));
    }
  }
}

PathClass PathTable::gpu_hca_with_pxn(size_t gpu, size_t hca, size_t* through) const {
  *through = gpu;
  PathClass own = gpu_hca(gpu, hca);
  if (own < PathClass::kPxn) return own;
  for (size_t other = 0; other < gpus_; ++other) {
    if (other == gpu || gpu_gpu(gpu, other) != PathClass::kNvl) continue;
    if (gpu_hca(other, hca) > PathClass::kP2c) continue;
    if (*through == gpu || gpu_hca(other, hca) < gpu_hca(*through, hca)) *through = other;
  }
  return *through == gpu ? own : PathClass::kPxn;
}

}  // namespace gdr::topology
