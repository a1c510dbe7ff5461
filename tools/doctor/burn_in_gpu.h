// The GPU of a measurement, as CUDA counts it in this process and in the programs that it starts.
// With CUDA_VISIBLE_DEVICES, or in a job that has some of the machine's GPUs, that is another
// number than the topology's; the PCI address tells them apart.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "tools/doctor/burn_in.h"

namespace gdr::tools::doctor {

struct GpuFacts;
struct Host;

// CUDA's number of the GPU at a PCI address; nothing where CUDA does not show it to this process.
std::optional<int> cuda_number(const GpuFacts& gpus, const std::string& address);

// kSystem, with the reason and the fix, where the case's memory is of a GPU that CUDA does not
// show.
Status check_gpu_of_case(const Host& host, const BurnInCase& one);

}  // namespace gdr::tools::doctor
