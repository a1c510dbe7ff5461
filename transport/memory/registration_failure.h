// Why GPU memory could not be registered with an HCA, and what the user can do about it: a pure
// function of what was tried, the error, and facts about the system. docs/gpu-memory.md lists the
// reasons.
#pragma once

#include <cstdint>
#include <string>

#include "base/finding.h"
#include "transport/device/registration_paths.h"
#include "transport/memory/system_facts.h"

namespace gdr::transport {

enum class FailureReason : uint8_t {
  kDisabledByUser,           // GDR_NCCL_GPU_MEMORY or NCCL_DMABUF_ENABLE excludes the path
  kKernelWithoutDmabuf,      // Linux before 5.12
  kHcaWithoutDmabuf,         // the HCA's driver or the verbs library has no dma-buf registration
  kDriverWithoutDmabuf,      // NVIDIA's closed kernel modules, or an old driver
  kAllocationWithoutDmabuf,  // memory of this kind of allocation cannot be exported
  kFileDescriptorLimit,      // RLIMIT_NOFILE
  kBar1Full,                 // no room in the window through which PCIe devices access GPU memory
  kMemoryLockLimit,          // RLIMIT_MEMLOCK
  kPeermemNotLoaded,         // the kernel module nvidia-peermem is not loaded
  kPeermemUnknown,           // EFAULT as without the module, but sysfs is not mounted to look it up
  kPeermemLegacy,            // nv_peer_mem, the predecessor, which is out of support
  kOther,
};

// One attempt to register GPU memory, which failed.
struct Attempt {
  RegistrationPath path = RegistrationPath::kDmaBuf;
  bool export_failed =
      false;           // the CUDA driver's export of the dma-buf failed, not the registration
  int error = 0;       // errno of the registration
  uint64_t bytes = 0;  // that were to be registered
};

struct RegistrationFailure {
  FailureReason reason = FailureReason::kOther;
  // subject: the registration path, such as "dma-buf"; text: the cause; fix: what the user can do.
  Finding finding;
};

// Finds the most likely cause of a failed attempt.
RegistrationFailure explain(const Attempt& attempt, const SystemFacts& facts);

// The failure of a path that was not tried because the user's settings exclude it.
RegistrationFailure disabled_by_user(RegistrationPath path);

// Joins the findings of several paths into one text and names each fix once:
// "dma-buf: the HCA's driver registers no dma-buf; nvidia-peermem: the kernel module nvidia-peermem
// is not loaded (...). Fix: update rdma-core and the HCA's driver; or: modprobe nvidia-peermem".
// last_fix: one that helps whatever the causes are; empty: there is none.
std::string joined_text(const Findings& findings, const std::string& last_fix = "");

}  // namespace gdr::transport
