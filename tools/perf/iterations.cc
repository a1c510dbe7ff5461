#include "tools/perf/iterations.h"

#include <algorithm>

namespace gdr::tools {
namespace {

// The first iterations are slower than later ones, so that their time says little.
constexpr double kMostGrowth = 10;

}  // namespace

size_t next_iterations(size_t last, double took_seconds, double wanted_seconds, size_t most) {
  if (took_seconds >= wanted_seconds / 2 || last >= most) return 0;
  const double growth =
      took_seconds > 0 ? std::min(kMostGrowth, wanted_seconds / took_seconds) : kMostGrowth;
  return std::min(most, static_cast<size_t>(static_cast<double>(last) * growth));
}

}  // namespace gdr::tools
