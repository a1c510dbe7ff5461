#include "tools/perf/columns.h"

#include <fmt/format.h>

namespace gdr::tools {
namespace {
// nccl-tests shortens large values to keep its columns.
std::string narrow(double value) {
  if (value >= 10000) return fmt::format("{:.0f}", value);
  if (value >= 1000) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value);
}

std::string timing_columns(const AllReduceRow& row, const AllReduceTiming& timing) {
  return fmt::format("{:>8} {:>7} {:>7} {:>6}", narrow(timing.microseconds),
                     narrow(algorithm_bandwidth(row.bytes, timing.microseconds)),
                     narrow(bus_bandwidth(row.bytes, timing.microseconds, row.ranks)),
                     timing.checked ? fmt::format("{}", timing.wrong) : "N/A");
}
}  // namespace

std::string bandwidth_header() {
  return " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]";
}

std::string format_row(const BandwidthRow& row) {
  return fmt::format(" {:<10} {:<14} {:<19.2f} {:<21.2f} {:<.6f}", row.bytes, row.iterations,
                     row.peak_mib_s, row.average_mib_s, row.message_mpps);
}

std::string latency_header() {
  return " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    "
         "t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]";
}

std::string format_row(const LatencyRow& row) {
  const LatencySummary& t = row.half_round_trip;
  return fmt::format(
      " {:<8} {:<12} {:<14.2f} {:<13.2f} {:<16.2f} {:<14.2f} {:<15.2f} {:<22.2f} {:<.2f}",
      row.bytes, row.iterations, t.min, t.max, t.typical, t.average, t.stdev, t.p99, t.p999);
}

std::string all_reduce_header() {
  return fmt::format(
      "#\n"
      "# {:>10} {:>12} {:>8} {:>6} {:>6} {:^32}{:^32}\n"
      "# {:>10} {:>12} {:>8} {:>6} {:>6} {:>8} {:>7} {:>7} {:>6}  {:>8} {:>7} {:>7} {:>6}\n"
      "# {:>10} {:>12} {:>8} {:>6} {:>6} {:>8} {:>7} {:>7} {:>6}  {:>8} {:>7} {:>7} {:>6}",
      "", "", "", "", "", "out-of-place", "in-place", "size", "count", "type", "redop", "root",
      "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw", "#wrong", "(B)", "(elements)",
      "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "");
}

std::string format_row(const AllReduceRow& row) {
  return fmt::format("{:>12} {:>12} {:>8} {:>6} {:>6} {}  {}", row.bytes, row.count, row.dtype,
                     "sum", -1, timing_columns(row, row.out_of_place),
                     timing_columns(row, row.in_place));
}

double algorithm_bandwidth(size_t bytes, double microseconds) {
  return microseconds > 0 ? static_cast<double>(bytes) / microseconds / 1e3 : 0;
}

double bus_bandwidth(size_t bytes, double microseconds, int ranks) {
  return algorithm_bandwidth(bytes, microseconds) * 2 * (ranks - 1) / ranks;
}

}  // namespace gdr::tools
