// What the programs of this folder have in common: checks that are counted, and their exit status.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "drivers/cuda/cuda_driver.h"

namespace gpu_test {

// Prints what did not hold, and counts it.
void check(bool ok, const std::string& what);

// Runs it with the number of GPUs. What main() returns: 0 where all checks held, 1 where one did
// not or it failed, 77 where there is no GPU.
int run_on_gpus(const std::function<gdr::Status(const gdr::cuda::CudaDriver&, int devices)>& run);

}  // namespace gpu_test
