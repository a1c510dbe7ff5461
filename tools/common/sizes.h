// Message sizes: the list of a sweep, the iterations of each, and texts for people.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"

namespace gdr::tools {

// Returns begin, begin*factor, ... up to end, which is included if it is reached exactly. If begin
// is 0, the list begins with 0 and 1.
Result<std::vector<size_t>> size_sweep(size_t begin, size_t end, size_t factor);

// Returns how many messages of this size a measurement sends by default: budget_bytes in all, but
// within [least, most] messages.
size_t default_iterations(size_t bytes, size_t budget_bytes, size_t least, size_t most);

inline constexpr size_t kFirstIterations = 16;
// For a test that keeps the time of each iteration, about 300 MB of which are in memory then.
inline constexpr size_t kMostSamples = 10'000'000;

// A measurement by time is repeated with more iterations until it takes half of the wanted seconds.
// Returns how many the next one has, `most` at most; 0 where the last one was long enough or had
// the most.
size_t next_iterations(size_t last, double took_seconds, double wanted_seconds, size_t most);

// Returns a text such as "8 B", "64 KiB" or "1.5 MiB".
std::string human_bytes(size_t bytes);

}  // namespace gdr::tools
