// Asynchronous copies between a GPU and page-locked host memory, beside running kernels: a stream
// of its own. Used by one thread at a time.
//
// Two things of CUDA's can keep them waiting for a kernel all the same; where that kernel waits for
// the copy, neither goes on (docs/adr/0007):
// - A launch is a driver call. While another thread of the process is inside a driver call that
//   waits for a kernel (cudaFree, cudaHostRegister, the loading of a module), the driver keeps the
//   launch waiting.
// - Streams share a few copy queues for each direction. A copy that the application has put behind
//   a kernel may stand before ours.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "drivers/cuda/cuda_api.h"
#include "drivers/cuda/cuda_driver.h"
#include "drivers/cuda/primary_context.h"

namespace gdr::transport {

class CopyStream {
 public:
  // Registration time: makes everything that copies need.
  static Result<std::shared_ptr<CopyStream>> create(const cuda::CudaDriver& driver, int device);
  ~CopyStream();
  CopyStream(const CopyStream&) = delete;
  CopyStream& operator=(const CopyStream&) = delete;

  // Launches a copy after all earlier ones; one side is GPU memory, the other page-locked. Returns
  // its ticket; tickets count up from 1.
  Result<uint64_t> copy(void* destination, const void* source, size_t bytes);
  // Whether the copy of that ticket, and so all before it, are complete.
  Result<bool> done(uint64_t ticket);
  // Waits for all copies. Not for a data path.
  void drain();

 private:
  // Later copies than this many take the events of earlier ones over, which are then seen complete
  // later, never too early.
  static constexpr size_t kEvents = 128;

  explicit CopyStream(cuda::PrimaryContext context) : context_(std::move(context)) {}
  tl::unexpected<Error> failed(const char* call, cuda::Rc rc) const;

  cuda::PrimaryContext context_;
  cuda::Stream stream_ = nullptr;
  std::array<cuda::Event, kEvents> events_{};
  uint64_t launched_ = 0;
  uint64_t done_ = 0;
};

}  // namespace gdr::transport
