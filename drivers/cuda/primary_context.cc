#include "drivers/cuda/primary_context.h"

#include <string>

namespace gdr::cuda {

Result<PrimaryContext> PrimaryContext::retain(const cuda::Api& api, int device) {
  cuda::Device handle = 0;
  cuda::Rc rc = api.device_get(&handle, device);
  if (rc != cuda::kSuccess) return call_failed(api, "cuDeviceGet " + std::to_string(device), rc);
  cuda::Context context = nullptr;
  rc = api.primary_ctx_retain(&context, handle);
  if (rc == cuda::kSuccess) return PrimaryContext(context, Release{api, handle});
  return call_failed(api, "primary context of CUDA device " + std::to_string(device), rc);
}

CurrentContext::CurrentContext(const PrimaryContext& context) : api_(context.api()) {
  api_.thread_exchange_stream_capture_mode(&capture_mode_);
  cuda::Rc rc = api_.ctx_push_current(context.get());
  if (rc != cuda::kSuccess) {
    status_ = call_failed(api_, "cuCtxPushCurrent", rc);
  }
}

CurrentContext::~CurrentContext() {
  cuda::Context popped = nullptr;
  if (status_) api_.ctx_pop_current(&popped);
  api_.thread_exchange_stream_capture_mode(&capture_mode_);
}

}  // namespace gdr::cuda
