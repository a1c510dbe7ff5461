// Lines of the result tables, in the columns of perftest and nccl-tests, so that scripts for those
// programs can read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace gdr::tools {

// One line of ib_write_bw's table.
struct BandwidthRow {
  size_t bytes = 0;       // of one message
  size_t iterations = 0;  // messages that were measured
  double peak_mib_s = 0;  // MiB = 2^20 bytes
  double average_mib_s = 0;
  double message_mpps = 0;  // 10^6 messages a second
};

// Statistics of one series of latencies, in microseconds, as perftest defines them.
struct LatencySummary {
  double min = 0;
  double max = 0;
  double typical = 0;  // the median
  double average = 0;
  double stdev = 0;  // of the population
  double p99 = 0;    // the smallest sample that 99 % of all do not exceed
  double p999 = 0;
};

// One line of ib_write_lat's table.
struct LatencyRow {
  size_t bytes = 0;
  size_t iterations = 0;           // round trips that were measured
  LatencySummary half_round_trip;  // microseconds
};

// One half of a line of all_reduce_perf's table.
struct AllReduceTiming {
  double microseconds = 0;  // of one all-reduce, averaged over the ranks
  uint64_t wrong = 0;       // elements that differ from the sum, on all ranks
  bool checked = true;
};

struct AllReduceRow {
  size_t bytes = 0;
  size_t count = 0;  // elements
  std::string dtype;
  int ranks = 0;
  AllReduceTiming out_of_place;
  AllReduceTiming in_place;
};

std::string bandwidth_header();
std::string format_row(const BandwidthRow& row);

std::string latency_header();
std::string format_row(const LatencyRow& row);

std::string all_reduce_header();
std::string format_row(const AllReduceRow& row);

// Data per time in GB/s (10^9 bytes), as an application sees it.
double algorithm_bandwidth(size_t bytes, double microseconds);
// Data per time that each rank's links carry: 2(n-1)/n times the algorithm bandwidth for a ring
// all-reduce over n ranks (nccl-tests, doc/PERFORMANCE.md).
double bus_bandwidth(size_t bytes, double microseconds, int ranks);

}  // namespace gdr::tools
