// Which of the NICs in a source are RDMA devices.
#pragma once

#include "tools/prediction/rail_agreement.h"
#include "tools/topo/labels.h"

namespace gdr::tools::topo {

// Whether the HCA is an RDMA device. NCCL's files also list the network interfaces that it uses by
// sockets, which have no GUID of a manufacturer (they count from 0) and no GPUDirect RDMA. Beside a
// peer of the model and the driver that has it, a device is one, too.
bool is_rdma_device(const Machine& machine, const Hca& hca);

// The same of the HCA that a port is on.
bool is_rdma_port(const Machine& machine, PortRef port);

// Whether one of the GPU's rails is on an RDMA device.
bool has_rdma_rail(const Machine& machine, const topology::Disagreement& one);

}  // namespace gdr::tools::topo
