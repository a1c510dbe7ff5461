#include "tools/common/sizes.h"

#include <fmt/format.h>

#include <algorithm>

namespace gdr::tools {

Result<std::vector<size_t>> size_sweep(size_t begin, size_t end, size_t factor) {
  if (end < begin) {
    return fail(Code::kInvalidArgument, fmt::format("--end {} is below --begin {}", end, begin));
  }
  if (factor < 2) return fail(Code::kInvalidArgument, "--factor must be 2 or more");
  std::vector<size_t> sizes;
  for (size_t size = begin; size <= end; size = std::max<size_t>(1, size * factor)) {
    sizes.push_back(size);
    if (size > end / factor) break;  // the next one would pass the end, or overflow
  }
  return sizes;
}

size_t default_iterations(size_t bytes, size_t budget_bytes, size_t least, size_t most) {
  return std::clamp(budget_bytes / std::max<size_t>(bytes, 1), least, most);
}

std::string human_bytes(size_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  bool whole = value == static_cast<double>(static_cast<size_t>(value));
  return fmt::format("{:.{}f} {}", value, whole ? 0 : 1, kUnits[unit]);
}

}  // namespace gdr::tools
