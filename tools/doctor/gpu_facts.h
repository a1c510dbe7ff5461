// NVIDIA's driver, CUDA, and what they report of each GPU.
#pragma once

namespace gdr::tools::doctor {

struct Host;

struct GpuFacts {};

// Reads them; `host` has its root, environment and topology already.
GpuFacts read_gpu_facts(const Host& host);

}  // namespace gdr::tools::doctor
