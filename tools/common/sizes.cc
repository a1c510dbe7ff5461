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

size_t next_iterations(size_t last, double took_seconds, double wanted_seconds, size_t most) {
  // The first iterations are slower than later ones, so that their time says little.
  constexpr double kMostGrowth = 10;
  if (took_seconds >= wanted_seconds / 2 || last >= most) return 0;
  const double growth =
      took_seconds > 0 ? std::min(kMostGrowth, wanted_seconds / took_seconds) : kMostGrowth;
  return std::min(most, static_cast<size_t>(static_cast<double>(last) * growth));
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
