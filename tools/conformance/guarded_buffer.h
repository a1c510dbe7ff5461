// A message buffer with guard bytes on both sides, which detect writes outside of the buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gdr::tools {

class GuardedBuffer {
 public:
  // The data begins `misalign` bytes past a multiple of 64 and is filled with kBlank.
  explicit GuardedBuffer(size_t bytes, size_t misalign = 0);

  char* data() { return data_; }
  const char* data() const { return data_; }
  size_t bytes() const { return bytes_; }

  // Returns an empty text if the guards, and the data from `used` on, are unchanged; else a
  // description of the first changed byte.
  std::string damage(size_t used) const;

  static constexpr size_t kGuardBytes = 256;
  static constexpr uint8_t kGuard = 0xa7;
  static constexpr uint8_t kBlank = 0x3c;

 private:
  std::vector<char> memory_;
  char* data_;
  size_t bytes_;
};

}  // namespace gdr::tools
