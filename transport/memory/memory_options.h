// What a user may choose about the registration of memory.
#pragma once

#include "transport/device/registration_paths.h"

namespace gdr::transport {

// Each comment names the variable that sets the field; docs/environment.md explains them all.
struct MemoryOptions {
  // GDR_NCCL_GPU_MEMORY and NCCL_DMABUF_ENABLE: the registration paths that may be tried.
  RegistrationPaths gpu_memory;
  // Processes of this machine may send for each other (NCCL's PXN), as they do over NVLink unless
  // NCCL_PXN_DISABLE is 1. See OwnAllocations::claim().
  bool relays = false;
  // NCCL_IB_PCI_RELAXED_ORDERING.
  bool relaxed_ordering = true;
};

}  // namespace gdr::transport
