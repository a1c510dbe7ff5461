#include "drivers/cuda/primary_context.h"

#include <string>

#include "drivers/cuda/cuda_driver.h"

namespace gdr::cuda {

Result<PrimaryContext> PrimaryContext::retain(const CudaDriver& driver, int device) {
  const cuda::Api& api = driver.api();
  cuda::Device handle = 0;
  cuda::Rc rc = api.device_get(&handle, device);
  if (rc != cuda::kSuccess) return driver.failed("cuDeviceGet " + std::to_string(device), rc);
  cuda::Context context = nullptr;
  rc = api.primary_ctx_retain(&context, handle);
  if (rc == cuda::kSuccess) return PrimaryContext(context, Release{api, handle});
  return driver.failed("primary context of CUDA device " + std::to_string(device), rc);
}

CurrentContext::CurrentContext(const PrimaryContext& context) : api_(context.api()) {
  api_.thread_exchange_stream_capture_mode(&capture_mode_);
  cuda::Rc rc = api_.ctx_push_current(context.get());
  if (rc != cuda::kSuccess) {
    status_ = fail(Code::kSystem, "cuCtxPushCurrent failed: " + cuda::error_name(api_, rc));
  }
}

CurrentContext::~CurrentContext() {
  cuda::Context popped = nullptr;
  if (status_) api_.ctx_pop_current(&popped);
  api_.thread_exchange_stream_capture_mode(&capture_mode_);
}

}  // namespace gdr::cuda
