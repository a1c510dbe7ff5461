// Whether the BAR1 of the machine's GPUs, through which HCAs access GPU memory, has room for NCCL's
// buffers.
#pragma once

#include <cstdint>
#include <optional>

#include "base/finding.h"
#include "plugin/config/options.h"
#include "topology/model.h"

namespace gdr::plugin {

// Returns the bytes of GPU memory that the HCAs have to register for a communicator on a GPU at
// least, with NCCL's defaults.
//
// NCCL makes at least two channels between machines: it doubles those that its search found
// (ncclTopoPostset in src/graph/connect.cc of 2.21 to 2.30). In each channel, a ring connects the
// GPU by a receiving and a sending connection, whose buffers are NCCL_BUFFSIZE, 4 MiB by default,
// for the protocol Simple and 4,800 KiB for LL128 (DEFAULT_LL128_BUFFSIZE in src/init.cc); those of
// LL are in host memory (sendProxyConnect in src/transport/net.cc). NCCL_NET_GDR_READ=0 keeps the
// sending ones there, too. Trees, point-to-point operations and further channels take more;
// NCCL_MAX_NCHANNELS=1 takes half.
uint64_t least_of_communicator(const config::Options& options);

struct Bar1Shortage {
  Finding finding;  // a warning with the numbers and the fix
  bool withheld;    // no HCA may be offered for GPU memory
};

// Returns a shortage where some GPU has less BAR1 free than that; withheld where its whole BAR1 is
// smaller. What is free differs between the processes of a machine, as others register memory in
// between, and NCCL takes an HCA for two where its processes state different properties of it; the
// size is the same for all, so that all of the machine's GPUs count. Nothing where NVML did not
// show the BAR1, or the GPU's memory is reached by NVLink-C2C.
std::optional<Bar1Shortage> short_bar1(const topology::Machine& machine,
                                       const config::Options& options);

}  // namespace gdr::plugin
