// Which of the NICs in a source are RDMA devices, and which of these the plugin can use.
#pragma once

#include <string>

#include "tools/inspection/labels.h"
#include "tools/prediction/rail_agreement.h"

namespace gdr::tools::topo {

// Whether the HCA is an RDMA device. NCCL's files also list the network interfaces that it uses by
// sockets, which have no GUID of a manufacturer (they count from 0) and no GPUDirect RDMA. Beside a
// peer of the model and the driver that has it, a device is one, too.
bool is_rdma_device(const Machine& machine, const Hca& hca);

// The same of the HCA that a port is on.
bool is_rdma_port(const Machine& machine, PortRef port);

// What sysfs has of a device and one of its ports, as verbs reports it to the plugin.
struct SysfsKind {
  std::string node_type;   // "1: CA", "4: RNIC"; "" of a device that sysfs does not have
  std::string vendor;      // "0x15b3"
  std::string link_layer;  // "" may be any
};

// Adds a finding about the HCAs of a file that the plugin cannot use, as far as PCI IDs show them:
// Amazon's Elastic Fabric Adapters. They stay in the machine: what NCCL decides about them is the
// same with the network plugin that does use them.
void add_unsupported(const Machine& machine, Findings* findings);

// Why the plugin cannot use a port of this kind, as transport::exclusion_reason() has it; `named`:
// in NCCL_IB_HCA. "" for a port that it can use.
std::string unsupported_reason(const SysfsKind& kind, bool named);

// Whether one of the GPU's rails is on an RDMA device.
bool has_rdma_rail(const Machine& machine, const topology::Disagreement& one);

}  // namespace gdr::tools::topo
