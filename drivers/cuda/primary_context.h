// A CUDA device's primary context: the one that the CUDA runtime, and so the application and NCCL,
// uses. Memory that the application allocated belongs to it.
#pragma once

#include <memory>

#include "base/result.h"
#include "drivers/cuda/cuda_api.h"

namespace gdr::cuda {

// A reference to a device's primary context, which exists at least as long as this object. Movable.
class PrimaryContext {
 public:
  // `device` is a CUDA ordinal. Creates the context if there is none yet, which takes long
  // (hundreds of milliseconds): not for a data path.
  static Result<PrimaryContext> retain(const cuda::Api& api, int device);

  const cuda::Api& api() const { return release_.get_deleter().api; }
  cuda::Context get() const { return release_.get(); }
  int device() const { return release_.get_deleter().device; }

 private:
  struct Release {
    cuda::Api api{};
    cuda::Device device = 0;
    void operator()(cuda::Context) const { api.primary_ctx_release(device); }
  };
  PrimaryContext(cuda::Context context, Release release) : release_(context, release) {}

  std::unique_ptr<CUctx_st, Release> release_;
};

// Makes a primary context current in this thread for the scope's life and restores the thread's own
// context at its end. It also sets the thread's capture mode to relaxed: while any thread of the
// process captures a CUDA graph in global mode, the driver rejects calls such as cuMemAlloc and
// cuEventQuery of every other thread (cuThreadExchangeStreamCaptureMode in cuda.h).
class CurrentContext {
 public:
  explicit CurrentContext(const PrimaryContext& context);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

  // The error of cuCtxPushCurrent, if it failed; then the thread's context is unchanged.
  const Status& status() const { return status_; }

 private:
  const cuda::Api& api_;
  Status status_;
  int capture_mode_ = cuda::kCaptureModeRelaxed;
};

}  // namespace gdr::cuda
