// NVIDIA's driver, CUDA, and what they report of each GPU.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "topology/bdf.h"
#include "transport/device/registration_paths.h"

namespace gdr::tools::doctor {

struct Host;

// The CUDA driver in user space, libcuda.so.1, as the loader finds it.
struct CudaLibrary {
  std::string path;         // "/usr/lib/x86_64-linux-gnu/libcuda.so.570.133.20"
  std::string release;      // of the driver that it comes with, from its name: "570.133.20"; or ""
  int version = 0;          // of CUDA: 12080 for 12.8 (cuDriverGetVersion); 0: unknown
  int init_result = 0;      // of cuInit, a CUresult; 0 also where cuInit was not called
  std::string init_error;   // CUDA's name of it: "CUDA_ERROR_NO_DEVICE"; "" on success
  bool hides_gpus = false;  // CUDA_VISIBLE_DEVICES is set, which can hide every GPU
  std::string lacks;        // why the plugin cannot use it: it is older than CUDA 11.7; else ""
};

// What CUDA reports of a GPU; nothing where it does not.
struct GpuFact {
  std::optional<bool> exports_dmabuf;  // CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED
  std::optional<bool> gpudirect;       // CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED
};

// How an HCA can register GPU memory.
struct HcaRegistration {
  bool dmabuf = false;         // the kernel, the HCA's driver and libibverbs register dma-bufs
  transport::Peermem peermem;  // the module by which it registers addresses of GPU memory
};

// All of it is empty where the host is not live.
struct GpuFacts {
  std::optional<CudaLibrary> cuda;
  std::string cuda_error;  // why libcuda.so.1 cannot be loaded; "" where it was, or not tried
  std::map<topology::Bdf, GpuFact> gpus;
  std::optional<bool> verbs_has_dmabuf;         // libibverbs has ibv_reg_dmabuf_mr (IBVERBS_1.12)
  std::map<std::string, HcaRegistration> hcas;  // by name; those that can be opened
};

// Reads them; `host` has its root, environment and topology already. Calls cuInit where the driver
// is loaded, and makes no CUDA context.
GpuFacts read_gpu_facts(const Host& host);

}  // namespace gdr::tools::doctor
