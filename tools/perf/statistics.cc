#include "tools/perf/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace gdr::tools {
namespace {
double percentile(const std::vector<double>& sorted, double fraction) {
  auto rank = static_cast<size_t>(std::ceil(fraction * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}
}  // namespace

LatencySummary summarize(std::vector<double>& samples) {
  LatencySummary out;
  if (samples.empty()) return out;
  std::sort(samples.begin(), samples.end());
  auto count = static_cast<double>(samples.size());
  out.min = samples.front();
  out.max = samples.back();
  size_t middle = samples.size() / 2;
  out.typical =
      samples.size() % 2 == 1 ? samples[middle] : (samples[middle - 1] + samples[middle]) / 2;
  out.average = std::accumulate(samples.begin(), samples.end(), 0.0) / count;
  double squares = 0;
  for (double sample : samples) squares += (sample - out.average) * (sample - out.average);
  out.stdev = std::sqrt(squares / count);
  out.p99 = percentile(samples, 0.99);
  out.p999 = percentile(samples, 0.999);
  return out;
}

}  // namespace gdr::tools
