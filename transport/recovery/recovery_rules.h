// Decisions of both ends' data paths when a pair is recovered, apart from who carries them out: the
// model in tests/model takes the same ones.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "transport/pairs/connection_options.h"

namespace gdr::transport {

// What the sender knows of the chunks of one pair in one epoch: their numbers.
struct ChunkCounts {
  uint64_t acknowledged = 0;  // those of which a successful completion was taken, or of a later one
  uint64_t posted = 0;
};

// Checks what the receiver states has arrived, once the pair is down at both ends. Chunks before
// number `arrived` are complete, and those from it on have to be sent again. kRemote where the
// receiver's HCA has acknowledged more: that data was lost there, and the sender may have reported
// it as sent and has not kept it. kInternal where more arrived than was posted.
//
// Both the data path and the watcher call this: a sender whose requests are complete is not called
// any more, and only the watcher finds that the receiver waits for data that was lost.
Status check_arrived(const ChunkCounts& chunks, uint64_t arrived);

// For how long an HCA sends a request to a peer that does not answer: 4.096 us * 2^ack_timeout for
// the first attempt and for each retry. ack_timeout 0, with which an HCA never gives up, counts as
// the default.
std::chrono::milliseconds time_of_retries(const ConnectionOptions& options);

// For how long a connection that recovers waits for a pair where none is usable, before it fails:
// as long as an HCA goes on sending, so that a connection of several rails survives what one of a
// single rail does; and at least 5 s, which covers the first pauses before a lost pair is tried
// again.
std::chrono::milliseconds time_without_pairs(const ConnectionOptions& options);

// Work of a data path that was lost with its path again and again: a chunk, or the read of a flush.
struct FailedWork {
  uint32_t failures = 0;                              // of its own, not of what was ahead of it
  std::chrono::steady_clock::duration failing_for{};  // since the first one
};

// Whether the connection ends since such work fails over every path. Paths may let the probe pass
// by which a lost pair returns, and nothing larger, as where a switch has a smaller MTU; or the
// work itself is what fails, as where the receiver's HCA does not reach the memory of a GPU any
// more. It would move from rail to rail for ever. Interruptions do not count up to this: a pair
// returns when its probe has come through, so that what is sent next over it fails only if it is
// lost again at once. A connection of one rail does not end before an HCA has retried as long,
// either.
bool fails_over_every_path(const FailedWork& work, size_t paths, const ConnectionOptions& options);

}  // namespace gdr::transport
