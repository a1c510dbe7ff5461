#include "tools/common/buffer.h"

#include <fmt/format.h>

#include <cstring>

#include "plugin/abi/nccl_types.h"

namespace gdr::tools {
namespace {
constexpr size_t kAlignment = 4096;
}

Result<Buffer> Buffer::host(size_t bytes) {
  Buffer buffer;
  size_t rounded = (bytes + kAlignment) / kAlignment * kAlignment;
  buffer.memory_.reset(static_cast<char*>(std::aligned_alloc(kAlignment, rounded)));
  if (!buffer.memory_) return fail(Code::kSystem, fmt::format("no memory for {} bytes", bytes));
  std::memset(buffer.memory_.get(), 0, rounded);
  buffer.bytes_ = bytes;
  buffer.type_ = abi::kPtrHost;
  return buffer;
}

}  // namespace gdr::tools
