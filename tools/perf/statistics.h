// Figures of a run: of latencies, as perftest prints them, and of several rounds.
#pragma once

#include <cstddef>
#include <vector>

namespace gdr::tools {

struct LatencySummary {
  double min = 0;
  double max = 0;
  double typical = 0;  // the median
  double average = 0;
  double stdev = 0;  // of the population
  double p99 = 0;
  double p999 = 0;
};

// Zero when there are no samples.
double median(std::vector<double> samples);

// Sorts the samples. All zero when there are none.
LatencySummary summarize(std::vector<double>& samples);

}  // namespace gdr::tools
