// The result of checking a machine.
#pragma once

#include <string>
#include <vector>

#include "base/finding.h"

namespace gdr::tools::topo {

// What can be wrong, the worst first. docs/topo.md describes each.
enum class Check {
  kNcclFails,    // NCCL of this release fails on the machine
  kNoGpu,        // the machine shows no GPU
  kNoHca,        // the machine shows no HCA
  kNoRail,       // a GPU without a usable rail
  kSetting,      // NCCL_IB_HCA or a rail map keeps GPUs off nearer or less shared ports
  kRailShare,    // GPUs with a smaller share of rails, or a rail farther away, than their peers
  kPortDown,     // a rail whose port is down
  kNoGpuDirect,  // an HCA or GPU that cannot do GPUDirect RDMA at all
  kNvlink,       // a GPU with other NVLinks than its peers
  kC2c,          // a GPU with fewer NVLink-C2C links than its peers
  kLinkWidth,    // a PCIe link that is narrower than possible, or than those of its peers
  kLinkSpeed,    // the same of the speed
  kPortSpeed,    // a port that is slower than those of its peers
  kLinkLayer,    // rails of InfiniBand and of Ethernet
  kGdrReach,     // a GPU whose own rail is too far away for GPUDirect RDMA
  kNcclChoice,   // NCCL uses another HCA than the GPU's rails, and loses by it
  kAcs,          // ACS redirects peer-to-peer traffic
  kIommu,        // the IOMMU translates the addresses of peer-to-peer traffic
  kNuma,         // a device whose NUMA node is unknown
  kBar,          // a GPU that shows only a part of its memory on PCIe
  kReadRequest,  // a small Max_Read_Request_Size
  kDiagnostic,   // a warning of reading the machine or the settings
};

// Returns the name of the check in the output: "port-down".
const char* name_of(Check check);

struct Fault {
  Check check;
  Finding finding;
};

struct CheckReport {
  std::vector<Fault> faults;       // the worst first
  std::vector<std::string> notes;  // what could not be checked, and what is worth knowing
};

}  // namespace gdr::tools::topo
