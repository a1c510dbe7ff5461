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

double middle(const std::vector<double>& sorted) {
  size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}
}  // namespace

double median(std::vector<double> samples) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  return middle(samples);
}

LatencySummary summarize(std::vector<double>& samples) {
  LatencySummary out;
  if (samples.empty()) return out;
  std::sort(samples.begin(), samples.end());
  auto count = static_cast<double>(samples.size());
  out.min = samples.front();
  out.max = samples.back();
  out.typical = middle(samples);
  out.average = std::accumulate(samples.begin(), samples.end(), 0.0) / count;
  double squares = 0;
  for (double sample : samples) squares += (sample - out.average) * (sample - out.average);
  out.stdev = std::sqrt(squares / count);
  out.p99 = percentile(samples, 0.99);
  out.p999 = percentile(samples, 0.999);
  return out;
}

}  // namespace gdr::tools
