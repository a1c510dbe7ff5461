// Asks CUDA and the verbs library for GpuFacts.
#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "drivers/cuda/cuda_api.h"
#include "drivers/verbs/verbs_api.h"
#include "tools/doctor/facts/gpu_facts.h"
#include "tools/doctor/facts/host.h"
#include "tools/doctor/facts/nvidia_files.h"
#include "transport/device/hca.h"

namespace gdr::tools::doctor {
namespace {

using topology::Bdf;

// The file of the library that has `symbol`, with links resolved.
std::string file_of_gpu_symbol(void* symbol) {
  Dl_info info{};
  if (symbol == nullptr || dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) return "";
  std::error_code unresolved;
  const auto file = std::filesystem::canonical(info.dli_fname, unresolved);
  return unresolved ? info.dli_fname : file.string();
}

// "libcuda.so.570.133.20" gives "570.133.20". libcuda.so.1 itself, as a file, gives nothing.
std::string driver_release_in_name(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  const size_t at = name.find(".so.");
  return at == std::string::npos ? "" : first_version_in(name.substr(at + 4));
}

void read_gpus_of_cuda(const cuda::Api& api, std::map<Bdf, GpuFact>* gpus) {
  int count = 0;
  if (api.device_get_count(&count) != cuda::kSuccess) return;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    cuda::Device device = 0;
    char text[32] = {};
    if (api.device_get(&device, ordinal) != cuda::kSuccess ||
        api.device_get_pci_bus_id(text, sizeof(text), device) != cuda::kSuccess) {
      continue;
    }
    const std::optional<Bdf> bdf = Bdf::parse(text);
    if (!bdf) continue;
    auto flag = [&](int attribute) -> std::optional<bool> {
      int value = 0;
      if (api.device_get_attribute(&value, attribute, device) != cuda::kSuccess) return {};
      return value != 0;
    };
    (*gpus)[*bdf].exports_dmabuf = flag(cuda::kDeviceDmaBufSupported);
    (*gpus)[*bdf].gpudirect = flag(cuda::kDeviceGpuDirectRdmaSupported);
  }
}

// The library stays loaded: CUDA does not support being unloaded.
void read_cuda(bool driver_is_loaded, GpuFacts* facts) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    facts->cuda_error = why == nullptr ? "libcuda.so.1 is not found" : why;
    return;
  }
  CudaLibrary& cuda = facts->cuda.emplace();
  void* symbol = dlsym(library, "cuDriverGetVersion");
  cuda.path = file_of_gpu_symbol(symbol);
  cuda.release = driver_release_in_name(cuda.path);
  const Result<cuda::Api> api = cuda::bind(library);
  if (!api) {
    cuda.lacks = api.error().text;
    return;
  }
  if (api->driver_get_version(&cuda.version) != cuda::kSuccess) cuda.version = 0;
  if (!driver_is_loaded) return;
  cuda.init_result = api->init(0);
  if (cuda.init_result != cuda::kSuccess) {
    cuda.init_error = cuda::error_name(*api, cuda.init_result);
    cuda.hides_gpus = std::getenv("CUDA_VISIBLE_DEVICES") != nullptr;
    return;
  }
  read_gpus_of_cuda(*api, &facts->gpus);
}

// Opens every HCA once, as the plugin does, which asks for nothing of its firmware but attributes.
void read_hcas(const Host& host, GpuFacts* facts) {
  const auto preferred = host.environment.find("NCCL_IBVERBS_LIB");
  const auto api = verbs::Api::load(preferred == host.environment.end() ? "" : preferred->second);
  if (!api) return;
  facts->verbs_has_dmabuf = (*api)->reg_dmabuf_mr != nullptr;
  int count = 0;
  ibv_device** list = (*api)->get_device_list(&count);
  if (list == nullptr) return;
  for (int i = 0; i < count; ++i) {
    const auto hca = transport::HcaContext::open(*api, list[i]);
    if (hca) facts->hcas[(*hca)->name()] = {(*hca)->supports_dmabuf(), (*hca)->peermem()};
  }
  (*api)->free_device_list(list);
}

}  // namespace

GpuFacts read_gpu_facts(const Host& host) {
  GpuFacts facts;
  if (!host.is_live) return facts;
  read_cuda(nvidia_module(host).is_loaded(), &facts);
  read_hcas(host, &facts);
  return facts;
}

}  // namespace gdr::tools::doctor
