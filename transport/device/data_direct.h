// Data Direct of mlx5: the HCA accesses GPU memory by a PCI function of its own, which is nearer to
// the GPU, while its queues stay on the first. Data on the one path and completions on the other
// are not ordered, so a flush must follow each receive, on every generation of GPU. As in NCCL's
// net_ib (src/transport/net_ib/init.cc, reg.cc). Untried on hardware.
#pragma once

#include <string>

#include "drivers/verbs/verbs_api.h"

namespace gdr::transport {

// Returns the path in sysfs of the HCA's Data Direct function, "/sys/devices/..."; "" if it has
// none, or if the provider, the kernel or the firmware cannot register dma-bufs with it.
std::string find_data_direct(const verbs::Api& api, ibv_pd* pd, uint32_t vendor_id);

}  // namespace gdr::transport
