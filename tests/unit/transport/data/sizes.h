// Units of message sizes, in bytes.
#pragma once

#include <cstddef>

namespace gdr::transport {

inline constexpr size_t kKib = 1024;
inline constexpr size_t kMib = 1024 * kKib;

}  // namespace gdr::transport
