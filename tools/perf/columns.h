// The tables' lines, in the columns of perftest and of nccl-tests, so that scripts for those read
// ours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tools/perf/statistics.h"

namespace gdr::tools {

struct BandwidthRow {
  size_t bytes = 0;
  size_t iterations = 0;
  double peak_mib_s = 0;  // MiB = 2^20 bytes
  double average_mib_s = 0;
  double message_mpps = 0;  // 10^6 messages a second
};

struct LatencyRow {
  size_t bytes = 0;
  size_t iterations = 0;
  LatencySummary half_round_trip;  // microseconds
};

struct AllReduceTiming {
  double microseconds = 0;
  uint64_t wrong = 0;
  bool checked = true;
};

struct AllReduceRow {
  size_t bytes = 0;
  size_t count = 0;
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

// GB/s, 10^9 bytes: what an application sees, and what each rank's wires carry.
double algorithm_bandwidth(size_t bytes, double microseconds);
double bus_bandwidth(size_t bytes, double microseconds, int ranks);

}  // namespace gdr::tools
