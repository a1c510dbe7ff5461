#include "tools/common/pattern.h"

#include <algorithm>
#include <cstring>

namespace gdr::tools {

Pattern::Pattern(uint64_t seed, uint64_t stream, uint64_t message)
    : key_(mix64(mix64(mix64(seed + 1) ^ (stream + 1)) ^ (message + 1))) {}

uint64_t Pattern::word(uint64_t index) const { return mix64(key_ + index * 0x9e3779b97f4a7c15ull); }

uint8_t Pattern::at(size_t position) const {
  uint64_t value = word(position / sizeof(value));
  uint8_t bytes[sizeof(value)];
  std::memcpy(bytes, &value, sizeof(value));
  return bytes[position % sizeof(value)];
}

void Pattern::fill(void* data, size_t bytes) const {
  auto* out = static_cast<uint8_t*>(data);
  for (size_t done = 0; done < bytes; done += sizeof(uint64_t)) {
    uint64_t value = word(done / sizeof(value));
    std::memcpy(out + done, &value, std::min(sizeof(value), bytes - done));
  }
}

size_t Pattern::first_mismatch(const void* data, size_t bytes) const {
  const auto* in = static_cast<const uint8_t*>(data);
  for (size_t done = 0; done < bytes; done += sizeof(uint64_t)) {
    uint64_t value = word(done / sizeof(value));
    size_t part = std::min(sizeof(value), bytes - done);
    if (std::memcmp(in + done, &value, part) == 0) continue;
    for (size_t i = done; i < done + part; ++i) {
      if (in[i] != at(i)) return i;
    }
  }
  return bytes;
}

}  // namespace gdr::tools
