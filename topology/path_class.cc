#include "topology/path_class.h"

#include <algorithm>

namespace gdr::topology {
namespace {

constexpr const char* kNames[kPathClasses] = {"LOC", "NVL", "NVB", "C2C", "PIX",
                                              "PXB", "P2C", "PXN", "PHB", "SYS"};

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

// All NVSwitches of a machine make one fabric.
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

PathClass pci_path(const Machine& machine, const Attachment& a, const Attachment& b) {
  if (a.parent >= 0 && a.parent == b.parent) return PathClass::kPix;
  for (int at = a.parent; at >= 0; at = machine.switches[at].at.parent) {
    if (is_above(machine, at, b.parent)) return PathClass::kPxb;
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
