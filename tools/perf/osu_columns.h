// The tables of the OSU micro-benchmarks' osu_bw and osu_latency, so that scripts for those read
// ours: two columns, sizes in bytes, MB = 10^6 bytes.
#pragma once

#include <string>

#include "tools/perf/columns.h"
#include "tools/perf/memory_place.h"

namespace gdr::tools {

// OSU waits for an answer after each window of messages; we keep `window` in flight throughout.
std::string osu_bandwidth_header(const std::vector<MemoryPlace>& memory, size_t window);
std::string osu_row(const BandwidthRow& row);

std::string osu_latency_header(const std::vector<MemoryPlace>& memory);
// The average, as OSU prints it.
std::string osu_row(const LatencyRow& row);

}  // namespace gdr::tools
