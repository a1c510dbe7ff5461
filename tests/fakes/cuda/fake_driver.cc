#include "tests/fakes/cuda/fake_driver.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace fake_cuda {
namespace {

void check(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "fake_cuda::Driver: %s\n", what);
  std::abort();
}

Driver load_once() {
  void* library = dlopen(FAKE_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  check(library != nullptr, "cannot load " FAKE_CUDA_LIBRARY);
  gdr::Result<gdr::cuda::Api> api = gdr::cuda::bind(library);
  check(api.has_value(), "the fake lacks functions");
  auto* hooks = reinterpret_cast<const Hooks* (*)()>(dlsym(library, "fake_cuda_hooks"));
  check(hooks != nullptr, "the fake has no hooks");
  return Driver{*api, *hooks()};
}

}  // namespace

const Driver& Driver::load() {
  static const Driver driver = load_once();
  return driver;
}

DeviceBuffer::DeviceBuffer(const Driver& driver, int device, size_t bytes)
    : driver_(driver), device_(device) {
  const gdr::cuda::Api& api = driver_.api;
  gdr::cuda::Context previous = nullptr;
  check(api.primary_ctx_retain(&context_, device_) == gdr::cuda::kSuccess, "retain");
  check(api.ctx_push_current(context_) == gdr::cuda::kSuccess, "push");
  check(api.mem_alloc(&address_, bytes) == gdr::cuda::kSuccess, "alloc");
  api.ctx_pop_current(&previous);
  view_ = static_cast<char*>(driver_.hooks.view(address_));
}

DeviceBuffer::~DeviceBuffer() {
  gdr::cuda::Context previous = nullptr;
  driver_.api.ctx_push_current(context_);
  driver_.api.mem_free(address_);
  driver_.api.ctx_pop_current(&previous);
  driver_.api.primary_ctx_release(device_);
}

}  // namespace fake_cuda
