// How far two devices are from each other, in NCCL's classes.
#pragma once

#include <string_view>
#include <vector>

#include "topology/model.h"

namespace gdr::topology {

// Values and names are those of NCCL 2.30 (its PATH_* in src/graph/topo.h).
enum class PathClass {
  kLoc = 0,  // the device itself
  kNvl = 1,  // NVLink
  kNvb = 2,  // NVLink over one GPU between
  kC2c = 3,  // NVLink-C2C
  kPix = 4,  // one PCIe switch
  kPxb = 5,  // several PCIe switches
  kP2c = 6,  // C2C to the CPU, then PCIe
  kPxn = 7,  // NVLink to a GPU that is near the NIC
  kPhb = 8,  // the host bridge of one NUMA node
  kSys = 9,  // between NUMA nodes
};

inline constexpr int kPathClasses = 10;

const char* to_string(PathClass path);  // "LOC", ...

// By PCIe alone. Two functions at one place are kPix.
PathClass pci_path(const Machine& machine, const Attachment& a, const Attachment& b);

// As nvidia-smi words it: like to_string, but "NODE" where two host bridges of one NUMA node lie
// between. "PHB" also where it is not known which host bridges.
const char* display_name(PathClass path, const Attachment& a, const Attachment& b);

// Every pair, computed once.
class PathTable {
 public:
  explicit PathTable(const Machine& machine);

  PathClass gpu_gpu(size_t a, size_t b) const { return gpu_gpu_[a * gpus_ + b]; }
  PathClass gpu_hca(size_t gpu, size_t hca) const { return gpu_hca_[gpu * hcas_ + hca]; }
  PathClass hca_hca(size_t a, size_t b) const { return hca_hca_[a * hcas_ + b]; }

  // As gpu_hca, but kPxn where NCCL would go over NVLink to a GPU that has a nearer path to the
  // HCA (NCCL_PXN_DISABLE unset): that GPU is *through.
  PathClass gpu_hca_with_pxn(size_t gpu, size_t hca, size_t* through) const;

 private:
  size_t gpus_;
  size_t hcas_;
  std::vector<PathClass> gpu_gpu_;
  std::vector<PathClass> gpu_hca_;
  std::vector<PathClass> hca_hca_;
};

}  // namespace gdr::topology
