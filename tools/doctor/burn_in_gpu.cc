#include "tools/doctor/burn_in_gpu.h"

#include <fmt/format.h>

#include <cstdlib>

#include "tools/doctor/host.h"
#include "tools/topo/labels.h"

namespace gdr::tools::doctor {
namespace {

std::string why_cuda_is_unusable(const GpuFacts& gpus) {
  if (!gpus.cuda) return gpus.cuda_error.empty() ? "it was not asked" : gpus.cuda_error;
  if (!gpus.cuda->lacks.empty()) return gpus.cuda->lacks;
  return gpus.cuda->init_error;
}

Status check_gpu_of_end(const Host& host, const BurnInEnd& one) {
  if (!one.gpu || one.cuda_number) return {};
  if (const std::string why = why_cuda_is_unusable(host.gpus); !why.empty()) {
    return fail(Code::kSystem, fmt::format("CUDA cannot be used: {}. Fix: nccl-gdr doctor --check "
                                           "nvidia-driver,cuda-driver",
                                           why));
  }
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string reason =
      visible == nullptr
          ? "as in a job or container that has some of the machine's GPUs. Fix: measure in one "
            "that "
            "has all of them"
          : fmt::format(
                "and CUDA_VISIBLE_DEVICES is \"{}\". Fix: unset CUDA_VISIBLE_DEVICES, in a "
                "job that has all GPUs",
                topo::clean_text(visible));
  return fail(Code::kSystem, fmt::format("CUDA does not show the GPU {} to this process, {}",
                                         one.gpu_address, reason));
}

}  // namespace

Status check_gpus_of_case(const Host& host, const BurnInCase& one) {
  Status usable = check_gpu_of_end(host, one.end);
  if (usable && one.receiver) usable = check_gpu_of_end(host, *one.receiver);
  return usable;
}

}  // namespace gdr::tools::doctor
