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
struct RdmaKind {
  std::string node_type;   // "1: CA", "4: RNIC"; "" where it is unknown
  std::string link_layer;  // "" may be any
};

// Returns the kind of an HCA in a file, where its PCI IDs alone show that it is neither InfiniBand
// nor RoCE; else an unknown one.
RdmaKind kind_by_ids(const topology::PciIds& ids);

// Why the plugin cannot use a port of this kind, as discovery::exclusion_reason() has it; `named`:
// in NCCL_IB_HCA. "" for a port that it can use.
std::string unsupported_reason(const RdmaKind& kind, bool named);

// Whether one of the GPU's rails is on an RDMA device.
bool has_rdma_rail(const Machine& machine, const topology::Disagreement& one);

}  // namespace gdr::tools::topo
