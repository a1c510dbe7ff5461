#include "tools/perf/osu_columns.h"

#include <fmt/format.h>

namespace gdr::tools {
namespace {
// OSU's line for runs with GPU memory; it has none for host memory on both sides.
std::string buffers_line(const std::vector<MemoryPlace>& memory) {
  auto name = [&](int rank) { return place_of(rank, memory).cuda ? "DEVICE (D)" : "HOST (H)"; };
  if (!place_of(0, memory).cuda && !place_of(1, memory).cuda) return "";
  return fmt::format("# Send Buffer on {} and Receive Buffer on {}\n", name(0), name(1));
}

std::string titles(const char* value) { return fmt::format("{:<10}{:>18}", "# Size", value); }

std::string line(size_t bytes, double value) {
  return fmt::format("{:<10}{:>18.2f}", bytes, value);
}
}  // namespace

std::string osu_bandwidth_header(const std::vector<MemoryPlace>& memory, size_t window) {
  return fmt::format(
      "# nccl-gdr bandwidth test in osu_bw's columns, {} messages kept in flight\n{}{}", window,
      buffers_line(memory), titles("Bandwidth (MB/s)"));
}

std::string osu_row(const BandwidthRow& row) {
  constexpr double kBytesPerMib = 1 << 20;
  return line(row.bytes, row.average_mib_s * kBytesPerMib / 1e6);
}

std::string osu_latency_header(const std::vector<MemoryPlace>& memory) {
  return fmt::format("# nccl-gdr latency test in osu_latency's columns, half the round trip\n{}{}",
                     buffers_line(memory), titles("Latency (us)"));
}

std::string osu_row(const LatencyRow& row) { return line(row.bytes, row.half_round_trip.average); }

}  // namespace gdr::tools
