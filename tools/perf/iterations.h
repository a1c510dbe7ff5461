// How many iterations a measurement has that is to take a given time.
#pragma once

#include <cstddef>

namespace gdr::tools {

inline constexpr size_t kFirstIterations = 16;
inline constexpr size_t kMostIterations = 10'000'000;  // 80 MB of samples in the latency test

// A measurement by time is repeated with more iterations until it takes half of the wanted seconds.
// Returns how many the next one has; 0 where the last one was long enough or had the most.
size_t next_iterations(size_t last, double took_seconds, double wanted_seconds);

}  // namespace gdr::tools
