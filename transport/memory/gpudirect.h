// GPUDirect RDMA: the registration of GPU memory with one HCA, so that the HCA accesses it without
// the host, by dma-buf, else by the kernel module nvidia-peermem; and why that could not be done.
// docs/gpu-memory.md lists the reasons.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/finding.h"
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

// One attempt to register GPU memory, which failed.
struct Attempt {
  RegistrationPath path = RegistrationPath::kDmaBuf;
  bool export_failed = false;  // by the CUDA driver, of the dma-buf; nothing was registered
  int error = 0;               // errno of the registration
  uint64_t bytes = 0;          // that were to be registered
};

// Finds the most likely cause of a failed attempt, with the name of its path, and what the user can
// do: "nvidia-peermem: the kernel module nvidia-peermem is not loaded (...)", "modprobe ...".
TextAndFix explain(const Attempt& attempt, const SystemFacts& facts);

// Joins what failed by several paths into one text and names each fix once:
// "dma-buf: the CUDA driver exports no dma-buf of this GPU; nvidia-peermem: the kernel module
// nvidia-peermem is not loaded (...). Fix: use NVIDIA's open ...; or: modprobe nvidia-peermem".
// last_fix: one that helps whatever the causes are; empty: there is none.
std::string joined_text(const std::vector<TextAndFix>& failures, const std::string& last_fix = "");

}  // namespace gdr::transport
