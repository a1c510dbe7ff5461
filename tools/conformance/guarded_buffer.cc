#include "tools/conformance/guarded_buffer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace gdr::tools {
namespace {
constexpr size_t kCacheLine = 64;

size_t first_other(const char* data, size_t bytes, uint8_t value) {
  auto other = [value](char byte) { return static_cast<uint8_t>(byte) != value; };
  return static_cast<size_t>(std::find_if(data, data + bytes, other) - data);
}
}  // namespace

GuardedBuffer::GuardedBuffer(size_t bytes, size_t misalign)
    : memory_(bytes + 2 * kGuardBytes + 2 * kCacheLine, static_cast<char>(kGuard)),
      data_(nullptr),
      bytes_(bytes) {
  auto start = reinterpret_cast<uintptr_t>(memory_.data()) + kGuardBytes;
  size_t to_aligned = (kCacheLine - start % kCacheLine) % kCacheLine;
  data_ = memory_.data() + kGuardBytes + to_aligned + misalign % kCacheLine;
  std::memset(data_, kBlank, bytes);
}

std::string GuardedBuffer::damage(size_t used) const {
  const char* before = data_ - kGuardBytes;
  if (size_t at = first_other(before, kGuardBytes, kGuard); at < kGuardBytes) {
    return fmt::format("the byte {} before the buffer was overwritten", kGuardBytes - at);
  }
  const char* after = data_ + bytes_;
  if (size_t at = first_other(after, kGuardBytes, kGuard); at < kGuardBytes) {
    return fmt::format("the byte {} past the end of the buffer ({} bytes) was overwritten", at,
                       bytes_);
  }
  size_t rest = bytes_ - used;
  if (size_t at = first_other(data_ + used, rest, kBlank); at < rest) {
    return fmt::format("byte {} was overwritten, beyond the message of {} bytes", used + at, used);
  }
  return {};
}

}  // namespace gdr::tools
