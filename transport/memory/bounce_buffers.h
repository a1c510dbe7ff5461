// Staging: page-locked host memory that stands in for GPU memory which no HCA reaches, byte for
// byte, and the copies between both.
#pragma once

#include <atomic>
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

// A range of GPU memory and the host memory that stands in for it.
struct BounceBuffer {
  uintptr_t address;  // of the GPU memory
  int device;         // CUDA's number of its GPU
  std::unique_ptr<PinnedMemory> memory;
};

// All stand-ins of a process: those who register the same range share one. Page-locking and undoing
// it wait for running kernels, which may wait for copies that the driver then keeps waiting. So
// memory is kept for the next one, until there is no stand-in left. Thread-safe.
class BounceBufferPool {
 public:
  enum class Locking : uint8_t { kAllowed, kRefused };

  // limit: bytes, of all together.
  explicit BounceBufferPool(size_t limit) : limit_(limit) {}

  // Declined where memory would have to be page-locked against `locking`.
  Result<std::shared_ptr<const BounceBuffer>> get(int device, uintptr_t address, size_t bytes,
                                                  Locking locking);

 private:
  using Memory = std::unique_ptr<PinnedMemory>;
  // Outlives the object for stand-ins that do.
  struct Pool {
    std::mutex mutex;  // guards the rest
    std::map<std::pair<uintptr_t, size_t>, std::weak_ptr<const BounceBuffer>> bounce_buffers;
    std::multimap<size_t, Memory> unused;  // by bytes
    size_t taken = 0;                      // bytes, unused ones too
    int in_use = 0;                        // stand-ins

    Memory take(size_t bytes);
    void give_back(Memory memory);
  };

  Result<Memory> allocate(int device, size_t bytes, Locking locking);

  const size_t limit_;
  std::shared_ptr<Pool> pool_ = std::make_shared<Pool>();
};

// One comm's use of a stand-in.
class Staging {
 public:
  Staging(std::shared_ptr<const BounceBuffer> bounce_buffer, std::shared_ptr<CopyStream> stream)
      : bounce_buffer_(std::move(bounce_buffer)), stream_(std::move(stream)) {}

  // The place that stands in for an address within the range.
  std::byte* host(const void* gpu) const {
    return bounce_buffer_->memory->get() +
           (reinterpret_cast<uintptr_t>(gpu) - bounce_buffer_->address);
  }
  CopyStream* stream() const { return stream_.get(); }
  std::byte* begin() const { return bounce_buffer_->memory->get(); }
  size_t bytes() const { return bounce_buffer_->memory->bytes(); }
  // Waits until no copy uses the memory any more. Not for a data path.
  void finish() const { stream_->drain(); }

 private:
  std::shared_ptr<const BounceBuffer> bounce_buffer_;
  std::shared_ptr<CopyStream> stream_;
};

// The copy streams of a connection, one for each GPU whose memory it stages. Thread-safe; the
// streams belong to the connection's data path.
class CopyStreams {
 public:
  Result<std::shared_ptr<CopyStream>> get(int device);

 private:
  std::mutex mutex_;  // guards streams_
  std::map<int, std::shared_ptr<CopyStream>> streams_;
};

}  // namespace gdr::transport
