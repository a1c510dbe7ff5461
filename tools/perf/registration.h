// How a plugin is told of message memory: NCCL's choice and NCCL's calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "tools/common/buffer.h"
#include "tools/common/deleters.h"

namespace gdr::tools {

enum class RegisteredBy : uint8_t { kHostAddress, kDeviceAddress, kDmaBuf };

// "host address", "device address", "dma-buf".
const char* describe(RegisteredBy by);

// "HOST|CUDA|DMABUF".
std::string ptr_support_text(int bits);

// For CUDA memory: by dma-buf where ptr_support has the bit and the GPU's driver exports, else by
// the device address where ptr_support has that bit. device names the plugin's, for the error.
Result<RegisteredBy> choose_for_cuda(const std::string& device, int ptr_support,
                                     bool exports_dmabuf);

// Registers memory for one comm.
Result<Registration> register_memory(const abi::ncclNet_v8_t& net, void* comm, const Buffer& buffer,
                                     RegisteredBy by);

}  // namespace gdr::tools
