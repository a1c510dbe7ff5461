// One-way streams: measured, or with every byte verified.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/perf/columns.h"
#include "tools/perf/endpoint.h"

namespace gdr::tools {

// One end's clock readings, in seconds from the start of its run.
struct StreamTimes {
  double total = 0;        // first post to last completion
  double after_first = 0;  // first completion to last completion
  double best_window = 0;  // shortest time for window_messages messages
  size_t window_messages = 0;
};

Result<StreamTimes> time_stream(const Endpoint& end, const StreamShape& shape, Rank& rank,
                                uint64_t yield_every);

// The slower end decides: a sender's completions alone may mean no more than a copy taken.
BandwidthRow bandwidth_row(const StreamShape& shape, const StreamTimes& sender,
                           const StreamTimes& receiver);

// Sends or expects messages filled with a pattern of seed, stream and message number. Returns how
// many messages were wrong in size or content (0 at the sender). Depth is cut to the slots.
Result<uint64_t> verify_stream(const Endpoint& end, StreamShape shape, Rank& rank, uint64_t seed,
                               uint64_t stream);

}  // namespace gdr::tools
