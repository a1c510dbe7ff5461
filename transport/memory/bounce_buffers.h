// Bounce buffers: page-locked host memory through which messages in GPU memory pass when no HCA can
// access that memory. docs/adr/0007 explains when staging is safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/result.h"
#include "transport/memory/copy_stream.h"
#include "transport/memory/pinned_memory.h"

namespace gdr::transport {

// Host memory for one range of GPU memory. Byte i of the range is staged at byte i of the memory.
struct BounceBuffer {
  uintptr_t address;  // of the GPU memory
  int device;         // CUDA ordinal of its GPU
  std::unique_ptr<PinnedMemory> memory;
};

// The bounce buffers of a process. Registrations of the same range (several comms register the same
// NCCL buffer) share one.
//
// Page-locking memory, and unlocking it, wait for running kernels; a kernel of NCCL's may wait for
// data that needs this very registration. Memory of a released bounce buffer is therefore kept
// page-locked for the next one, and all of it is unlocked only when no bounce buffer is in use.
//
// Thread-safe. Bounce buffers may outlive the pool.
class BounceBufferPool {
 public:
  // Whether get() may page-lock memory, or has to do with what is already locked.
  enum class Locking : uint8_t { kAllowed, kForbidden };

  // limit: bytes of page-locked memory, all bounce buffers and unused memory together.
  explicit BounceBufferPool(size_t limit) : limit_(limit) {}

  // Returns the bounce buffer of the GPU memory [address, address + bytes) of that CUDA device; it
  // is released with the last reference. kDeclined if memory would have to be locked although
  // `locking` forbids it, kSystem beyond the limit.
  Result<std::shared_ptr<const BounceBuffer>> get(int device, uintptr_t address, size_t bytes,
                                                  Locking locking);

 private:
  using Memory = std::unique_ptr<PinnedMemory>;
  // Shared with every bounce buffer, which gives its memory back when it is deleted.
  struct Pool {
    std::mutex mutex;  // guards the rest
    std::map<std::pair<uintptr_t, size_t>, std::weak_ptr<const BounceBuffer>> bounce_buffers;
    std::multimap<size_t, Memory> unused;  // by bytes
    size_t locked_bytes = 0;               // of used and unused memory
    int in_use = 0;                        // bounce buffers

    Memory take_unused(size_t bytes);
    void give_back(Memory memory);
  };

  Result<Memory> allocate(int device, size_t bytes, Locking locking);

  const size_t limit_;
  std::shared_ptr<Pool> pool_ = std::make_shared<Pool>();
};

// A bounce buffer as one comm uses it, with the stream that copies between both memories. The
// registration of the host memory belongs to the comm's MemoryHandle.
class StagedMemory {
 public:
  StagedMemory(std::shared_ptr<const BounceBuffer> bounce_buffer,
               std::shared_ptr<CopyStream> stream)
      : bounce_buffer_(std::move(bounce_buffer)), stream_(std::move(stream)) {}

  // Returns the host address at which the byte at GPU address `gpu`, in the range, is staged.
  std::byte* host(const void* gpu) const {
    return bounce_buffer_->memory->get() +
           (reinterpret_cast<uintptr_t>(gpu) - bounce_buffer_->address);
  }
  CopyStream* stream() const { return stream_.get(); }
  // The host memory as a whole: at least as many bytes as the range has.
  std::byte* begin() const { return bounce_buffer_->memory->get(); }
  size_t bytes() const { return bounce_buffer_->memory->bytes(); }
  // Waits until no copy uses the memory any more; may take as long as a kernel runs. Not for a data
  // path.
  void finish() const { stream_->drain(); }

 private:
  std::shared_ptr<const BounceBuffer> bounce_buffer_;
  std::shared_ptr<CopyStream> stream_;
};

}  // namespace gdr::transport
