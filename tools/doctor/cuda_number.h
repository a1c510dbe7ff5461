// The number by which CUDA knows a GPU. With CUDA_VISIBLE_DEVICES, or in a job that has some of the
// machine's GPUs, it is another one than the topology's; the PCI address is the same in both.
#pragma once

#include <optional>
#include <string>

#include "tools/doctor/gpu_facts.h"

namespace gdr::tools::doctor {

// Nothing where CUDA does not show the GPU at this PCI address to this process.
inline std::optional<int> cuda_number(const GpuFacts& gpus, const std::string& address) {
  const auto bdf = topology::Bdf::parse(address);
  if (!bdf) return {};
  const auto found = gpus.gpus.find(*bdf);
  return found == gpus.gpus.end() ? std::nullopt : found->second.cuda_number;
}

}  // namespace gdr::tools::doctor
