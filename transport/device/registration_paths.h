// The ways by which an HCA gets at GPU memory, and which of them the user allows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace gdr::transport {

enum class RegistrationPath : uint8_t {
  kDmaBuf,   // ibv_reg_dmabuf_mr
  kPeermem,  // ibv_reg_mr of the GPU's address, which a kernel module allows
  kStaging,  // through page-locked host memory
};
inline constexpr int kRegistrationPathCount = 3;

// "dma-buf", "nvidia-peermem", "staging".
const char* name_of(RegistrationPath way);

// The ways that may be tried, always in the order above.
struct RegistrationPaths {
  bool dmabuf = true;
  bool peermem = true;
  bool staging = true;

  bool only_staging() const { return staging && !dmabuf && !peermem; }

  // "dmabuf", "peermem", "staging" in any order, with commas between; at least one.
  static Result<RegistrationPaths> parse(std::string_view text);
  std::string to_string() const;
};

}  // namespace gdr::transport
