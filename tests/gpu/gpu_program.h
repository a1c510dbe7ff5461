// The common part of the programs in this folder: counted checks and the exit status.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "drivers/cuda/cuda_driver.h"

namespace gpu_test {

// Prints and counts a check that failed.
void check(bool ok, const std::string& what);

// Calls `run` with the number of GPUs. Returns the exit status for main(): 0 if all checks passed,
// 1 if one failed or `run` returned an error, 77 if there is no GPU.
int run_on_gpus(const std::function<gdr::Status(const gdr::cuda::CudaDriver&, int devices)>& run);

}  // namespace gpu_test
