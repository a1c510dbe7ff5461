// How GPU memory can be registered with an HCA, and what keeps it from being so.
#pragma once

#include <cstdint>
#include <string>

namespace gdr::tools::doctor {

struct Host;

enum class Works : uint8_t { kNo, kUnknown, kYes };

// Whether one registration path works, and the reason, as a part of a sentence.
struct PathState {
  Works works = Works::kUnknown;
  std::string text;
};

// The part of dma-buf that is that of the machine's NVIDIA GPUs, the export. What CUDA reports
// counts more than what follows from the kernel modules.
PathState export_of_dmabuf(const Host& host);

// By dma-buf: `exported` is export_of_dmabuf(); the rest is the kernel, the verbs library and the
// HCA's driver.
PathState by_dmabuf(const Host& host, const PathState& exported, const std::string& hca);

// By the address, which takes the module nvidia-peermem.
PathState by_peermem(const Host& host, const std::string& hca);

// Whether the kernel has the interface that nvidia-peermem registers with. Linux itself lacks it;
// the HCA vendor's drivers and some distributions add it. Without it, the module's init function
// returns EINVAL (kernel-open/nvidia-peermem/nvidia-peermem.c of NVIDIA's kernel modules). True
// where the symbols of the kernel cannot be read.
bool kernel_accepts_peermem(const Host& host);

}  // namespace gdr::tools::doctor
