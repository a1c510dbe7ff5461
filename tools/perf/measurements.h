// What sendrecv measures: one-way streams of messages, also with every byte verified, and
// ping-pong.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/perf/columns.h"
#include "tools/perf/message_stream.h"

namespace gdr::tools {

// The times that one end measured, in seconds.
struct StreamTimes {
  double total = 0;        // first post to last completion
  double after_first = 0;  // first completion to last completion
  double best_window = 0;  // shortest time of window_messages consecutive messages
  size_t window_messages = 0;
};

// Runs the stream and measures it. yield_every is StallGuard's.
Result<StreamTimes> time_stream(const Endpoint& end, const StreamShape& shape, Rank& rank,
                                uint64_t yield_every);

// Computes a table row from both ends' times. The slower end decides, because a sender's completion
// alone may only mean that the plugin has copied the data.
BandwidthRow bandwidth_row(const StreamShape& shape, const StreamTimes& sender,
                           const StreamTimes& receiver);

// Sends or receives messages that are filled with a pattern of seed, stream and message number.
// Returns how many messages had a wrong size or content (always 0 at the sender). The depth is
// limited to what the slots hold, so that no buffer is reused before it has been checked.
Result<uint64_t> verify_stream(const Endpoint& end, StreamShape shape, Rank& rank, uint64_t seed,
                               uint64_t stream);

// Ping-pong over two connections, one in each direction.
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
