// Kernels that spin on the GPU until they are ended, like NCCL's kernels that wait for data.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "drivers/cuda/cuda_api.h"
#include "drivers/cuda/primary_context.h"

namespace gpu_test {

class SpinKernels {
 public:
  // Launches `count` kernels, each of one thread on a stream of its own. `word` is page-locked host
  // memory with the value 0. The context must be current in this and every later call.
  static gdr::Result<std::unique_ptr<SpinKernels>> launch(const gdr::cuda::PrimaryContext& context,
                                                          uint32_t* word, int count);
  const std::vector<gdr::cuda::Stream>& streams() const { return streams_; }
  // Ends the kernels and waits for them.
  ~SpinKernels();
  SpinKernels(const SpinKernels&) = delete;
  SpinKernels& operator=(const SpinKernels&) = delete;

 private:
  SpinKernels(const gdr::cuda::Api& api, uint32_t* word) : api_(api), word_(word) {}

  const gdr::cuda::Api api_;
  uint32_t* const word_;
  std::vector<gdr::cuda::Stream> streams_;
};

}  // namespace gpu_test
