// How many iterations a measurement has that is to take a given time.
#pragma once

#include <cstddef>

namespace gdr::tools {

inline constexpr size_t kFirstIterations = 16;
// For a test that keeps the time of each iteration, about 300 MB of which are in memory then.
inline constexpr size_t kMostSamples = 10'000'000;

// A measurement by time is repeated with more iterations until it takes half of the wanted seconds.
// Returns how many the next one has, `most` at most; 0 where the last one was long enough or had
// the most.
size_t next_iterations(size_t last, double took_seconds, double wanted_seconds, size_t most);

}  // namespace gdr::tools
