// Ping-pong over two connections, one in each direction.
#pragma once

#include <vector>

#include "tools/perf/columns.h"
#include "tools/perf/endpoint.h"

namespace gdr::tools {

struct PingPongShape {
  size_t bytes = 0;
  size_t round_trips = 0;
  size_t depth = 2;  // receives posted ahead; with 1, every message waits for its clear-to-send
};

// Runs a ping-pong. Both ranks call this, one of them with first = true. Returns half of each round
// trip's time in microseconds at the first rank and an empty list at the other. To keep other work
// out of the measured time, a reply is sent before the next receive is posted, and finished sends
// are tested only while there is nothing to receive. Two sends or more may be in flight, so that no
// message waits for the completion of the one before it.
Result<std::vector<double>> ping_pong(const Endpoint& send, const Endpoint& recv,
                                      const PingPongShape& shape, Rank& rank, bool first);

// Sorts the samples and summarises them. All figures are zero when there are no samples.
LatencySummary summarize(std::vector<double>& samples);

}  // namespace gdr::tools
