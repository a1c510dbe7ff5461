// What differs between releases of NCCL in how they see a machine, as named facts. All come from
// NCCL's src/graph (topo.cc, paths.cc, topo.h), tag by tag.
#pragma once

#include <optional>

#include "tools/prediction/settings.h"
#include "topology/path_class.h"

namespace gdr::topology::nccl {

// For which GPUs and HCAs the path over NVLink-C2C, the CPU and PCIe is a class of its own.
enum class P2c {
  kNone,      // before 2.27: it is PHB
  kPhbPairs,  // 2.27.3: pairs that are PHB
  kAllPairs,  // 2.27.5 to 2.28: every pair whose HCA is PHB from the GPU's CPU
  kLocal,     // from 2.29: of those, only the HCAs that are local to the GPU
};

// Up to which class NCCL_NET_GDR_C2C allows GPUDirect over C2C.
enum class GdrOverC2c {
  kNever,    // before 2.26
  kAsC2c,    // 2.26 to 2.28: the pair counts as C2C, which a level below C2C forbids
  kByLevel,  // from 2.29: the level is P2C where it is unset
};

// How NCCL goes up from a GPU to its CPU while it adds NVLinks. Releases before 2.26 look at the
// links of each switch in order and may come back to where they were, without end.
enum class CpuSearch {
  kAnyDevice,  // before 2.22: along every PCIe link
  kSwitches,   // 2.22 to 2.25: along PCIe links to switches and CPUs
  kForward,    // from 2.26: those, but never back
};

struct Rules {
  Release release = kNewestRelease;

  // The machine as a graph.
  bool knows_c2c = true;         // C2C is a class; before 2.26 these links count as NVLink
  bool knows_pci_peers = true;   // <pcilink>; from 2.22
  bool has_dev_nodes = true;     // a node for the GPU and one for each of its ranks; from 2.30
  bool knows_partitions = true;  // MLOPart; from 2.30.5
  // In 2.21 and 2.22 the id of a CPU whose NUMA node is unknown (-1) is of another host, so that
  // NCCL connects it with no other CPU (NCCL_TOPO_ID in topo.h, which masks the node from 2.23).
  bool joins_unknown_numa = true;
  bool nic_per_function = true;  // from 2.24; before, functions of one card are one NIC
  // Each rank describes its own GPU, and NCCL appends what the description of another rank adds to
  // that of the first (ncclTopoFuseXml), which orders the devices; from 2.21. Before, one rank
  // describes all GPUs.
  bool fuses_ranks = true;
  bool knows_recent_cpus = true;  // Intel's Sapphire and Emerald Rapids; from 2.26
  float sm100_nvlink = 40.1F;     // GB/s of one NVLink of compute capability 10.0 and above
  CpuSearch cpu_search = CpuSearch::kForward;

  // Routes.
  bool class_first = true;        // the search prefers the nearer class; from 2.30.5
  bool fastest_cpu = true;        // the GPU's CPU is the fastest, then the nearest; from 2.30.5
  bool p2p_over_any_cpu = false;  // GPUs reach each other over AMD and POWER CPUs; before 2.23
  // Where NCCL joins a route of class C2C and one of class PHB at a CPU, the whole is P2C; from
  // 2.27.5. Before, it is the farther of the two: PHB.
  bool joins_c2c_and_phb = true;
  P2c p2c = P2c::kLocal;
  bool p2c_is_after_pxn = false;  // the order of classes in 2.27.3

  // PXN.
  bool pxn_over_c2c_known = true;          // NCCL_PXN_C2C; from 2.27
  bool pxn_over_c2c = true;                // its default; on from 2.28
  PathClass pxn_beyond = PathClass::kPxn;  // own routes beyond this class go over another GPU
  bool pxn_needs_gpudirect = true;         // the other GPU must send directly; from 2.30
  // Without GPUDirect, NCCL diverts a route between a GPU and an HCA to the GPU's CPU only where
  // the route is nearer than PHB; from 2.21. Before, it diverts all such routes.
  bool diverts_near_only = true;

  // The choice of devices.
  int max_channels = 64;           // 32 before 2.25
  bool has_devices_policy = true;  // NCCL_NETDEVS_POLICY; from 2.28
  // A GPU begins in the list of its nearest HCAs at its NVML number modulo the number of GPUs that
  // share these HCAs, so that the GPUs of each group count from 0; from 2.30.5. Before, it is the
  // NVML number itself.
  bool counts_from_zero = true;

  // GPUDirect.
  GdrOverC2c gdr_over_c2c = GdrOverC2c::kByLevel;
  bool gdr_c2c_default = true;  // NCCL_NET_GDR_C2C; on from 2.27

  // Returns the facts of a release; those of the oldest or newest known one beyond these.
  static Rules of(Release release);

  // Returns the place of a class in the release's order; smaller is nearer.
  int rank(PathClass path) const;
  // Returns whether the release has this class, and so takes its name as a level.
  bool knows(PathClass path) const;
  // Returns the level that takes effect: nothing where the release does not know the class.
  std::optional<PathClass> level(std::optional<PathClass> set) const;
};

}  // namespace gdr::topology::nccl
