// Ping-pong over two connections.
#pragma once

#include <vector>

#include "tools/perf/endpoint.h"

namespace gdr::tools {

struct PingPongShape {
  size_t bytes = 0;
  size_t round_trips = 0;
  size_t depth = 2;  // receives posted ahead, at least 2: the peer's clear-to-send never waits
};

// Both ranks call this, one with first = true. Returns the half round trips in microseconds, one
// for each round trip at the first rank and none at the other. A reply goes out before the next
// receive is posted, and finished sends are reaped while there is nothing to do.
Result<std::vector<double>> ping_pong(const Endpoint& send, const Endpoint& recv,
                                      const PingPongShape& shape, Rank& rank, bool first);

}  // namespace gdr::tools
