// A device's primary context: held, and current in a thread for a while.
#pragma once

#include <memory>

#include "base/result.h"
#include "drivers/cuda/cuda_api.h"

namespace gdr::cuda {

class CudaDriver;

class PrimaryContext {
 public:
  static Result<PrimaryContext> retain(const CudaDriver& driver, int device);

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

// Makes it current for the scope's life, and lets the calls that are refused while another thread
// captures a graph through; the thread's own state is restored.
class CurrentContext {
 public:
  explicit CurrentContext(const PrimaryContext& context);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

  const Status& status() const { return status_; }

 private:
  const cuda::Api& api_;
  Status status_;
  int capture_mode_ = cuda::kCaptureModeRelaxed;
};

}  // namespace gdr::cuda
