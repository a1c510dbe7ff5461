// Facts about this process, kernel, driver and GPU that explain why GPU memory could not be
// registered. They are read after a failure, so reading them may be slow.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "transport/device/hca.h"
#include "transport/device/registration_paths.h"

namespace gdr::transport {

// The GPU that owns a range of memory.
struct GpuIdentity {
  int device = -1;     // CUDA ordinal; -1: unknown
  std::string pci_id;  // "0000:1a:00.0"; empty: unknown
};

struct SystemFacts {
  std::optional<bool>
      driver_supports_dmabuf;  // CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED; unset: unknown
  std::optional<uint64_t> memory_lock_limit;  // bytes; see memory_lock_limit()
  std::optional<uint64_t> bar1_bytes;         // size of the GPU's BAR1; unset: unknown
  uint64_t registered_bytes = 0;  // GPU memory that this process has registered on the HCA
  bool file_descriptors_exhausted = false;
  Peermem module;
};

// Reads all facts, as they are now, about a registration of `gpu`'s memory on `hca`.
SystemFacts read_system_facts(const HcaContext& hca, const GpuIdentity& gpu);

// Returns the size in bytes of the GPU's BAR1, the window through which PCIe devices access the
// GPU's memory: the largest memory window in <sysfs_root>/bus/pci/devices/<pci_id>/resource. Unset
// if sysfs does not list any, as in some containers.
std::optional<uint64_t> bar1_bytes(const std::string& pci_id,
                                   const std::string& sysfs_root = "/sys");

// Returns RLIMIT_MEMLOCK in bytes; unset if it is unlimited or the process has CAP_IPC_LOCK, which
// exempts it in the initial user namespace (ib_umem_get in Linux's drivers/infiniband/core/umem.c
// asks capable()).
std::optional<uint64_t> memory_lock_limit();

// What a verb lacks that could not make a CQ, a QP or a registration, with a fix, for the end of
// its error's text; "" where the errno value says nothing of that. Their buffers all count against
// that limit. Asks the HCA for its limits.
std::string lack_text(const HcaContext& hca, int err,
                      std::optional<uint64_t> lock_limit = memory_lock_limit());
// Makes the error of that verb.
tl::unexpected<Error> fail_making(const HcaContext& hca, std::string text, int err);

// Returns whether opening a file fails because the process (EMFILE) or the system (ENFILE) has no
// file descriptor left. An export of a dma-buf then fails with an error that does not say so.
bool file_descriptors_exhausted();

}  // namespace gdr::transport
