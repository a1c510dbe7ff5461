// A message buffer of gigabytes that needs little memory: most of its address range shows the same
// pages, and only the windows have pages of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace gdr::tools {

class LargeBuffer {
 public:
  // Windows are at both ends of the message, at every quarter of a gibibyte, and around 2^31 - 1
  // bytes, where ints overflow.
  static Result<LargeBuffer> create(size_t bytes);
  LargeBuffer(LargeBuffer&& other) noexcept;
  LargeBuffer& operator=(LargeBuffer&&) = delete;
  ~LargeBuffer();

  char* data() const { return data_; }
  size_t bytes() const { return bytes_; }

  // Fills each window with data of its own, which depends on the seed.
  void fill(uint64_t seed);
  // Returns an empty text if the windows have the data of fill(seed) and the bytes past the message
  // are as create() left them; else a description of the first wrong byte.
  std::string check(uint64_t seed) const;

 private:
  struct Window {
    size_t begin = 0;
    size_t bytes = 0;  // of the message: fewer than its pages have at the end
  };
  LargeBuffer() = default;

  char* data_ = nullptr;
  size_t bytes_ = 0;
  size_t mapped_ = 0;
  std::vector<Window> windows_;
};

}  // namespace gdr::tools
