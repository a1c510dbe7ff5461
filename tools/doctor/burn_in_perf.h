// Measurements of --burn-in by `nccl-gdr perf sendrecv`.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/doctor/burn_in.h"

namespace gdr::tools::doctor {

// perf ends by itself a minute after the last progress. This ends it where that fails.
inline constexpr auto kPerfTimeLimit = std::chrono::minutes(3);

// The arguments of nccl-gdr for a measurement that prints JSON, and nothing else, to standard
// output. A GPU of the case needs its number in CUDA.
std::vector<std::string> perf_arguments(const BurnInCase& one, const BurnInPeer& peer);

// The same for a few messages of 8 bytes of host memory, between two rails of this machine.
std::vector<std::string> perf_probe_arguments(const BurnInCase& one);

// Reads that JSON. Fails where it is not of the case's HCAs or GPUs.
Result<BurnInMeasurement> parse_perf_result(const BurnInCase& one, const std::string& json);

// For an error of a perf that does not end.
inline constexpr char kPerfGeneralFix[] =
    "look at what the drivers of the HCA and the GPU report in dmesg, and run nccl-gdr conformance";

// The error of a perf that was ended: because the other machine's had ended, or after its time.
// `printed` is what it wrote to standard error.
Error unfinished_perf(bool other_is_first, const std::string& printed);

// Why the messages of perf_probe_arguments() do not arrive; "" where they do. Fails where they
// cannot be sent.
Result<std::string> why_unreached_by_perf(const BurnInCase& one);

// Measures, until `kBurnInGrace` after `other_ended` returned true. On the machine with rank 1 the
// result is empty. Fails with kRemote where data was lost or wrong.
Result<BurnInMeasurement> measure_by_perf(const BurnInCase& one, const BurnInPeer& peer,
                                          const std::function<bool()>& other_ended);

}  // namespace gdr::tools::doctor
