#include "topology/live/gpu_facts.h"

#include <dlfcn.h>

#include <string_view>

#include "base/loaded_library.h"
#include "drivers/cuda/cuda_driver.h"

namespace gdr::topology {
namespace {

int index_of(const Machine& machine, const Result<std::string>& bus_id) {
  if (!bus_id) return -1;
  auto bdf = Bdf::parse(*bus_id);
  for (size_t i = 0; i < machine.gpus.size(); ++i) {
    if (machine.gpus[i].bdf == bdf) return static_cast<int>(i);
  }
  return -1;
}

bool is_cuda_driver(std::string_view file_name) { return file_name.starts_with("libcuda.so"); }

// Returns null where the process has not loaded the driver (RTLD_NOLOAD loads nothing). Asked for
// each connection: where there is none, dlopen alone would search the library path each time.
const cuda::CudaDriver* driver() {
  if (!has_loaded(is_cuda_driver)) return nullptr;
  void* loaded = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (loaded == nullptr) return nullptr;
  dlclose(loaded);
  const Result<cuda::CudaDriver>& shared = cuda::CudaDriver::shared();
  return shared ? &*shared : nullptr;
}

}  // namespace

bool uses_cuda() { return driver() != nullptr; }

void add_gpu_facts(Machine* machine) {
  const cuda::CudaDriver* cuda = driver();
  if (cuda == nullptr) return;
  int count = cuda->device_count().value_or(0);
  for (int device = 0; device < count; ++device) {
    int index = index_of(*machine, cuda->pci_bus_id(device));
    if (index < 0) continue;
    if (Result<bool> can = cuda->gpudirect_rdma_supported(device)) {
      machine->gpus[index].gpudirect = *can;
    }
    if (Result<int> capability = cuda->compute_capability(device)) {
      machine->gpus[index].compute_capability = *capability;
    }
  }
}

bool gpus_export_dmabuf() {
  const cuda::CudaDriver* cuda = driver();
  if (cuda == nullptr) return true;
  int count = cuda->device_count().value_or(0);
  for (int device = 0; device < count; ++device) {
    if (!cuda->dmabuf_supported(device).value_or(false)) return false;
  }
  return true;
}

int current_gpu(const Machine& machine) {
  const cuda::CudaDriver* cuda = driver();
  if (cuda == nullptr) return -1;
  Result<int> device = cuda->current_device();
  return device ? index_of(machine, cuda->pci_bus_id(*device)) : -1;
}

}  // namespace gdr::topology
