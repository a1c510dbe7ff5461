// What perftest's programs print: a table of one row, or errors.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace gdr::tools::doctor {

// Returns the average bandwidth in Gb/s (10^9 bits) of messages of that size, from the output of
// ib_write_bw with or without --report_gbits. The table is found by its header, whose columns have
// been the same from 4.5 (Debian 12) on:
//    #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
//    4194304    14280            0.00               119.79     0.003570
// kSystem where there is no such row, or its number is none.
Result<double> perftest_gbits(const std::string& output, uint64_t bytes);

// Returns the typical latency, which is the median, in microseconds, from the output of
// ib_write_lat or ib_send_lat: half a round trip.
//    #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec] ...
Result<double> perftest_latency_us(const std::string& output, uint64_t bytes);

// For an error that points at nothing else.
inline constexpr char kPerftestGeneralFix[] =
    "use --burn-in-with perf, and see whether it fails, too";

// Makes an error of what a program printed that has no result: `how` says how it ended,
// "ib_write_bw ended with status 1". kRemote where a transfer failed; else kSystem. The text ends
// in the likely fix.
Error perftest_error(const std::string& how, const std::string& output, const std::string& errors);

}  // namespace gdr::tools::doctor
