// How far two devices are from each other, in NCCL's path classes.
#pragma once

#include <string_view>
#include <vector>

#include "topology/model.h"

namespace gdr::topology {

// A smaller class is nearer. Values and names are those of NCCL 2.30 (PATH_LOC to PATH_SYS in
// src/graph/topo.h), so that a class can be compared with NCCL_NET_GDR_LEVEL.
enum class PathClass {
  kLoc = 0,  // the device itself
  kNvl = 1,  // NVLink
  kNvb = 2,  // NVLink through one other GPU
  kC2c = 3,  // NVLink-C2C
  kPix = 4,  // at most one PCIe switch
  kPxb = 5,  // several PCIe switches, but no host bridge
  kP2c = 6,  // NVLink-C2C to the CPU, then PCIe
  kPxn = 7,  // NVLink to a GPU that is near the NIC, then PCIe
  kPhb = 8,  // the host bridges of one NUMA node
  kSys = 9,  // from one NUMA node to another
};

inline constexpr int kPathClasses = 10;

// Returns NCCL's name: "LOC", "NVL", ..., "SYS".
const char* to_string(PathClass path);

// Returns the nearest switch above, as an index in Machine::switches, or -1. A Broadcom switch that
// shows itself as several counts as one: this is the outermost of them.
int counted_switch(const Machine& machine, const Attachment& at);

// Where in the chip a part of a Broadcom switch is that shows itself as several.
enum class BroadcomLevel { kOuter, kInner };

// Returns the PCIe generation (4 or 5) of such a switch, by the ids of a part at this level; 0: it
// is another switch. NCCL recognises them in this way (getBcmGen in src/graph/topo.cc).
int broadcom_generation(const PciIds& ids, BroadcomLevel level);

// Returns the class of the path over PCIe alone: kPix, kPxb, kPhb or kSys. Two functions under the
// same switch, or of the same card, are kPix; switches that are cabled to each other make kPxb. A
// Broadcom switch that shows itself as several counts as one, as NCCL flattens it
// (ncclTopoFlattenBcmSwitches in src/graph/topo.cc).
PathClass pci_path(const Machine& machine, const Attachment& a, const Attachment& b);

// Returns the class as `nvidia-smi topo -m` prints it: like to_string(), but "NODE" where two host
// bridges of one NUMA node lie between. It is "PHB" also where the host bridges are unknown.
const char* display_name(PathClass path, const Attachment& a, const Attachment& b);

// The class of every pair of devices of a machine, computed once. Indexes are those of
// Machine::gpus and Machine::hcas.
//
// This is the distance in hardware. What a release of NCCL makes of it, such as kP2c and kPxn, is
// in tools/prediction/prediction.h.
class PathTable {
 public:
  explicit PathTable(const Machine& machine);

  PathClass gpu_gpu(size_t a, size_t b) const { return gpu_gpu_[a * gpus_ + b]; }
  // kPix, kPxb, kPhb or kSys.
  PathClass gpu_hca(size_t gpu, size_t hca) const { return gpu_hca_[gpu * hcas_ + hca]; }
  PathClass hca_hca(size_t a, size_t b) const { return hca_hca_[a * hcas_ + b]; }

 private:
  size_t gpus_;
  size_t hcas_;
  std::vector<PathClass> gpu_gpu_;
  std::vector<PathClass> gpu_hca_;
  std::vector<PathClass> hca_hca_;
};

}  // namespace gdr::topology
