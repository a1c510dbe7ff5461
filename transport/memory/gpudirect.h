// GPUDirect RDMA: the registration of GPU memory with one HCA, so that the HCA accesses it without
// the host. By dma-buf, else by the kernel module nvidia-peermem.
#pragma once

#include <string>

#include "base/result.h"
#include "transport/device/hca.h"
#include "transport/device/registration_paths.h"
#include "transport/memory/system_facts.h"

namespace gdr::transport {

struct DirectRegistration {
  ibv_mr* mr;             // in the HCA's registration cache; the caller releases it there
  RegistrationPath path;  // kDmaBuf or kPeermem
};

// The GPU memory to register: `region` is all of it or part of an allocation of `gpu`. A dma-buf in
// the region is used as it is; without one, the memory is exported for the duration of the call.
// An error's text has the cause and the fix of each path that was tried (joined_text()).
Result<DirectRegistration> register_direct(const HcaContext& hca, const MemoryRegion& region,
                                           const GpuIdentity& gpu, PciOrdering ordering,
                                           const RegistrationPaths& allowed);

// Explains for an HCA that can register no GPU memory at all why each path fails, and what fixes
// it, without trying. The GPU is the current one of the calling thread.
std::string why_not_direct(const HcaContext& hca, const RegistrationPaths& allowed);

}  // namespace gdr::transport
