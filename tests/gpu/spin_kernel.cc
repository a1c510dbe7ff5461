#include "tests/gpu/spin_kernel.h"

#include <dlfcn.h>

#include <atomic>
#include <string>

namespace gpu_test {
namespace {

namespace cuda = gdr::cuda;

struct CUmod_st;
struct CUfunc_st;

// CUDA functions that only this test calls.
struct KernelApi {
  cuda::Rc (*module_load_data)(CUmod_st** module, const void* image);
  cuda::Rc (*module_get_function)(CUfunc_st** function, CUmod_st* module, const char* name);
  cuda::Rc (*launch_kernel)(CUfunc_st* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                            unsigned block_x, unsigned block_y, unsigned block_z,
                            unsigned shared_bytes, cuda::Stream stream, void** parameters,
                            void** extra);
};

constexpr char kSpin[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry spin(.param .u64 flag)
{
  .reg .u64 %address;
  .reg .u32 %value;
  .reg .pred %waiting;
  ld.param.u64 %address, [flag];
again:
  ld.volatile.u32 %value, [%address];
  setp.eq.u32 %waiting, %value, 0;
  @%waiting bra again;
  ret;
}
)";

template <class Function>
void find(void* library, const char* name, Function*& slot) {
  slot = reinterpret_cast<Function*>(dlsym(library, name));
}

gdr::Result<CUfunc_st*> load_kernel(const cuda::Api& api, KernelApi& kernels) {
  void* library = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW);
  find(library, "cuModuleLoadData", kernels.module_load_data);
  find(library, "cuModuleGetFunction", kernels.module_get_function);
  find(library, "cuLaunchKernel", kernels.launch_kernel);
  if (kernels.module_load_data == nullptr || kernels.module_get_function == nullptr ||
      kernels.launch_kernel == nullptr) {
    return gdr::fail(gdr::Code::kUnsupported, "this libcuda runs no kernels");
  }
  CUmod_st* module = nullptr;
  CUfunc_st* function = nullptr;
  cuda::Rc rc = kernels.module_load_data(&module, kSpin);
  if (rc == cuda::kSuccess) rc = kernels.module_get_function(&function, module, "spin");
  if (rc == cuda::kSuccess) return function;
  return gdr::fail(gdr::Code::kSystem, "loading the kernel: " + cuda::error_name(api, rc));
}

}  // namespace

gdr::Result<std::unique_ptr<SpinKernels>> SpinKernels::launch(
    const gdr::cuda::PrimaryContext& context, uint32_t* word, int count) {
  const cuda::Api& api = context.api();
  KernelApi kernels{};
  gdr::Result<CUfunc_st*> function = load_kernel(api, kernels);
  if (!function) return gdr::forward_error(function);
  std::unique_ptr<SpinKernels> spinning(new SpinKernels(api, word));
  cuda::DevicePtr on_gpu = 0;
  cuda::Rc rc = api.mem_host_get_device_pointer(&on_gpu, word, 0);
  for (int i = 0; i < count && rc == cuda::kSuccess; ++i) {
    cuda::Stream stream = nullptr;
    rc = api.stream_create(&stream, cuda::kStreamNonBlocking);
    if (rc == cuda::kSuccess) spinning->streams_.push_back(stream);
  }
  for (cuda::Stream stream : spinning->streams_) {
    void* parameters[] = {&on_gpu};
    if (rc != cuda::kSuccess) break;
    rc = kernels.launch_kernel(*function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
  }
  if (rc == cuda::kSuccess) return spinning;
  return gdr::fail(gdr::Code::kSystem, "launching a kernel: " + cuda::error_name(api, rc));
}

SpinKernels::~SpinKernels() {
  std::atomic_ref<uint32_t>(*word_).store(1, std::memory_order_release);
  for (cuda::Stream stream : streams_) {
    api_.stream_synchronize(stream);
    api_.stream_destroy(stream);
  }
}

}  // namespace gpu_test
