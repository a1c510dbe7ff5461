// The registration paths: how an HCA can be given access to GPU memory, and which of them the user
// allows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace gdr::transport {

enum class RegistrationPath : uint8_t {
  kDmaBuf,   // ibv_reg_dmabuf_mr: GPUDirect RDMA through the kernel's dma-buf framework
  kPeermem,  // ibv_reg_mr of the GPU's address: GPUDirect RDMA by the kernel module nvidia-peermem
};
inline constexpr int kRegistrationPathCount = 2;

// Returns "dma-buf" or "nvidia-peermem", as logs name the path.
const char* name_of(RegistrationPath path);

// The paths that may be tried, always in the order of the enum.
struct RegistrationPaths {
  bool dmabuf = true;
  bool peermem = true;

  bool includes(RegistrationPath path) const;

  // Parses the list of GDR_NCCL_GPU_MEMORY: "dmabuf" and "peermem" in any order, separated by
  // commas, at least one. Any other text is a kInvalidArgument.
  static Result<RegistrationPaths> parse(std::string_view text);
  // The list in that grammar, in the order of the enum.
  std::string to_string() const;
};

}  // namespace gdr::transport
