// Registers memory on the rails of a connection: GPU memory by dma-buf, else by nvidia-peermem,
// else by staging, which is never silent. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "transport/data/connection.h"
#include "transport/memory/memory_handle.h"
#include "transport/memory/memory_options.h"
#include "transport/memory/registration_failure.h"

namespace gdr::transport {

class Registrar {
 public:
  explicit Registrar(std::shared_ptr<const MemoryOptions> options);

  Result<std::unique_ptr<MemoryHandle>> register_memory(Connection& connection,
                                                        const MemoryRegion& region);

  // "120 by dma-buf, 0 by nvidia-peermem, 8 staged": GPU registrations so far; "" while there are
  // none.
  std::string counts_text() const;

 private:
  struct Target;

  bool relaxed_ordering(const HcaContext& hca) const;
  Status register_host(Connection& connection, const MemoryRegion& region, MemoryHandle* handle);
  Status register_gpu(Connection& connection, const MemoryRegion& region, MemoryHandle* handle);
  Result<ibv_mr*> register_direct(const Target& target);
  Result<ibv_mr*> by_dmabuf(const Target& target, Attempt* attempt);
  Result<ibv_mr*> by_address(const Target& target);
  Status stage_instead(Connection& connection, const Target& target, const Error& refusal,
                       MemoryHandle* handle);
  Status stage(Connection& connection, const MemoryRegion& region, int gpu, MemoryHandle* handle);
  void count_direct(const Target& target, RegistrationPath way);
  bool log_once(const std::string& what);

  std::shared_ptr<const MemoryOptions> options_;
  BounceBufferPool bounce_buffers_;
  std::array<std::atomic<uint64_t>, kRegistrationPathCount> counts_{};
  std::mutex mutex_;  // guards said_
  std::set<std::string> logged_;
};

// For an HCA with which NCCL registers no GPU memory at all: why, way by way, and what mends it.
// The GPU is that of the calling thread.
std::string why_not_direct(const HcaContext& hca, const RegistrationPaths& allowed);

}  // namespace gdr::transport
