#include "drivers/cuda/gpu_workspace.h"

#include <string>
#include <utility>

namespace gdr::cuda {

GpuWorkspace::State::~State() {
  CurrentContext current(context);
  if (stream != nullptr && current.status()) context.api().stream_destroy(stream);
}

void GpuWorkspace::Memory::Free::operator()(void* address) const {
  CurrentContext current(state->context);
  if (!current.status()) return;
  state->context.api().mem_free(reinterpret_cast<cuda::DevicePtr>(address));
}

Result<GpuWorkspace> GpuWorkspace::open(const CudaDriver& driver, int device) {
  Result<PrimaryContext> context = PrimaryContext::retain(driver.api(), device);
  if (!context) return forward_error(context);
  GpuWorkspace gpu(std::make_unique<State>(std::move(*context)));
  CurrentContext current(gpu.state_->context);
  if (!current.status()) return tl::unexpected(current.status().error());
  cuda::Rc rc = driver.api().stream_create(&gpu.state_->stream, cuda::kStreamNonBlocking);
  if (rc != cuda::kSuccess) return driver.failed("cuStreamCreate", rc);
  return gpu;
}

Status GpuWorkspace::set_current() const {
  const cuda::Api& api = state_->context.api();
  return finish("cuCtxSetCurrent", api.ctx_set_current(state_->context.get()));
}

Result<GpuWorkspace::Memory> GpuWorkspace::allocate(size_t bytes) const {
  CurrentContext current(state_->context);
  if (!current.status()) return tl::unexpected(current.status().error());
  cuda::DevicePtr address = 0;
  Status allocated = finish("cuMemAlloc", state_->context.api().mem_alloc(&address, bytes));
  if (!allocated) return forward_error(allocated);
  return Memory(reinterpret_cast<void*>(address), bytes, Memory::Free{state_.get()});
}

Status GpuWorkspace::copy(void* destination, const void* source, size_t bytes) const {
  CurrentContext current(state_->context);
  if (!current.status()) return current.status();
  const cuda::Api& api = state_->context.api();
  cuda::Rc rc = api.memcpy_async(reinterpret_cast<cuda::DevicePtr>(destination),
                                 reinterpret_cast<cuda::DevicePtr>(source), bytes, state_->stream);
  if (rc == cuda::kSuccess) rc = api.stream_synchronize(state_->stream);
  return finish("copy", rc);
}

Status GpuWorkspace::fill(void* address, unsigned char value, size_t bytes) const {
  CurrentContext current(state_->context);
  if (!current.status()) return current.status();
  const cuda::Api& api = state_->context.api();
  cuda::Rc rc =
      api.memset_d8_async(reinterpret_cast<cuda::DevicePtr>(address), value, bytes, state_->stream);
  if (rc == cuda::kSuccess) rc = api.stream_synchronize(state_->stream);
  return finish("fill", rc);
}

Status GpuWorkspace::finish(const char* call, cuda::Rc rc) const {
  if (rc == cuda::kSuccess) return {};
  return fail(Code::kSystem, std::string(call) +
                                 " failed: " + cuda::error_name(state_->context.api(), rc) +
                                 " on CUDA device " + std::to_string(device()));
}

}  // namespace gdr::cuda
