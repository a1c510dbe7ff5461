// Why GPU memory could not be registered with an HCA, and what mends it: a pure function of what
// was tried, the error and the machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "transport/device/peermem.h"
#include "transport/device/registration_paths.h"

namespace gdr::transport {

enum class FailureReason : uint8_t {
  kDisabled,             // the user leaves this way out
  kKernelWithoutDmabuf,  // Linux before 5.12
  kHcaWithoutDmabuf,     // the HCA's driver or verbs library has no dma-buf registration
  kDriverWithoutDmabuf,  // NVIDIA's closed kernel modules, or an old driver
  kMemoryWithoutDmabuf,  // this allocation cannot be exported
  kFileDescriptors,      // RLIMIT_NOFILE
  kBar1,                 // no room in the window through which devices see GPU memory
  kMemoryLock,           // RLIMIT_MEMLOCK
  kModuleAbsent,         // nvidia-peermem is not loaded
  kModuleUnknown,        // the same error, but /sys does not tell of modules
  kModuleLegacy,         // nv_peer_mem, out of support
  kOther,
};

// What a registration met.
struct Attempt {
  RegistrationPath way = RegistrationPath::kDmaBuf;
  bool exporting = false;  // the dma-buf's export failed, not its registration
  int error = 0;           // errno, of the registration
  uint64_t bytes = 0;
};

// What the machine says when it is asked after a failure.
struct SystemFacts {
  std::string kernel;  // uname's release, such as "6.1.0-18-amd64"
  bool hca_takes_dmabuf = false;
  std::optional<bool> driver_exports;   // CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED
  std::optional<uint64_t> memory_lock;  // RLIMIT_MEMLOCK; unset: unlimited
  uint64_t pinned_bytes = 0;            // that count against it
  std::optional<uint64_t> bar1_bytes;   // size of the GPU's BAR1
  uint64_t registered_bytes = 0;        // of this GPU, by this process, on this HCA
  bool file_descriptors_exhausted = false;
  Peermem module;
};

struct Explanation {
  FailureReason refusal = FailureReason::kOther;
  std::string text;  // "no room in the GPU's BAR1 (...)"
  std::string fix;   // "enable Resizable BAR ..."; empty where none is known
};

Explanation explain(const Attempt& attempt, const SystemFacts& circumstances);

// Whether a kernel of that release can have dma-buf registrations of RDMA devices at all (5.12).
bool kernel_has_dmabuf(const std::string& release);

}  // namespace gdr::transport
