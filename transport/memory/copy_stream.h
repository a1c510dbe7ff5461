// Asynchronous copies between GPU memory and page-locked host memory, on a CUDA stream of their own
// so that they run beside the application's and NCCL's kernels.
//
// Two properties of CUDA can nevertheless make such a copy wait for a kernel. If that kernel waits
// for the copy, both deadlock (docs/adr/0007):
// 1. Launching a copy is a driver call. The driver blocks the launch while another thread of the
//    process is inside a driver call that waits for a kernel (cudaFree, cudaHostRegister, the
//    loading of a module).
// 2. All streams share a few hardware queues for copies of each direction. A copy that the
//    application queued behind a kernel can be ahead of ours in the same queue.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "base/result.h"
#include "drivers/cuda/cuda_api.h"
#include "drivers/cuda/cuda_driver.h"
#include "drivers/cuda/primary_context.h"

namespace gdr::transport {

// One GPU's stream and the events that mark its copies. Used by one thread at a time.
class CopyStream {
 public:
  // Makes the stream and all events, so that copy() and done() create nothing. Takes driver calls
  // that may wait for kernels: only when memory is registered. `device` is a CUDA ordinal.
  static Result<std::shared_ptr<CopyStream>> create(const cuda::CudaDriver& driver, int device);
  ~CopyStream();
  CopyStream(const CopyStream&) = delete;
  CopyStream& operator=(const CopyStream&) = delete;

  // Launches a copy behind all earlier ones and returns its ticket; tickets count up from 1. One
  // side is GPU memory, the other page-locked host memory. An error means that the CUDA context is
  // broken.
  Result<uint64_t> copy(void* destination, const void* source, size_t bytes);
  // Returns whether the copy of that ticket, and so every earlier copy, is complete.
  Result<bool> done(uint64_t ticket);
  // Waits until all copies are complete. Not for a data path.
  void drain();

 private:
  // Ticket t is marked by event t % kEvents. With more copies outstanding than events, a later copy
  // takes over the event of an earlier one, which then appears complete later than it is, never
  // earlier.
  static constexpr size_t kEvents = 128;

  explicit CopyStream(cuda::PrimaryContext context) : context_(std::move(context)) {}
  tl::unexpected<Error> failed(const char* call, cuda::Rc rc) const;

  cuda::PrimaryContext context_;
  cuda::Stream stream_ = nullptr;
  std::array<cuda::Event, kEvents> events_{};
  uint64_t launched_ = 0;
  uint64_t done_ = 0;
};

// The copy streams of one connection: one per GPU whose memory the connection stages. get() is
// thread-safe; the streams themselves belong to the connection's data path.
class CopyStreams {
 public:
  // Returns the stream of that CUDA device, made at the first call.
  Result<std::shared_ptr<CopyStream>> get(int device);

 private:
  std::mutex mutex_;  // guards streams_
  std::map<int, std::shared_ptr<CopyStream>> streams_;
};

}  // namespace gdr::transport
