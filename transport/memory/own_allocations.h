// Which registrations of GPU memory on a connection are NCCL's own buffers, and which are users'.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace gdr::transport {

// An allocation of GPU memory as the CUDA driver knows it (cuMemGetAddressRange).
struct GpuAllocation {
  uintptr_t address = 0;
  size_t bytes = 0;

  // Returns the allocation that contains the region, which is memory of that CUDA device; the
  // region itself if the driver knows none.
  static GpuAllocation containing(const GpuAllocation& region, int device);
};

// NCCL registers two kinds of GPU memory on a comm, and nothing in the call distinguishes them:
// - Its own buffers, right after connect or accept (src/transport/net.cc: sendProxyConnect,
//   recvProxyConnect). They are parts of one allocation, and NCCL ends the job where one is
//   refused.
// - Users' buffers, later (net.cc: sendProxyRegBuffer, recvProxyRegBuffer), each an allocation of
//   its own. NCCL goes on without those that are refused.
//
// Thread-safe.
class OwnAllocations {
 public:
  // Held by the registrations of NCCL's own buffers. An allocation is NCCL's while one lives.
  using Own = std::shared_ptr<const GpuAllocation>;

  // Returns what to keep with the registration of one of NCCL's own buffers, null for a user's
  // buffer. NCCL's own are the first registration, and any in an allocation that holds one of
  // these.
  // relayed: also another allocation of the first one's size is NCCL's own. With PXN a process
  // sends for other ranks of its machine over one shared comm, and has a buffer for each (net.cc:
  // sharedNetBuffersInit), all of one size.
  Own claim(const GpuAllocation& allocation, bool relayed);

 private:
  std::mutex mutex_;  // guards the rest
  std::vector<std::weak_ptr<const GpuAllocation>> own_;
};

}  // namespace gdr::transport
