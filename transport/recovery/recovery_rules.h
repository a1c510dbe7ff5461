// Decisions of both ends' data paths when a pair is recovered, apart from who carries them out: the
// model in tests/model takes the same ones.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/result.h"
#include "transport/pairs/connection_options.h"
#include "transport/wire/wire.h"

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

// Buffers of a connection that follow each other, by number.
struct BufferRange {
  uint64_t first;
  uint64_t end;  // exclusive
  bool empty() const { return first == end; }
};

// Which buffers the receiver may announce, and announce again, so that no late write replaces a
// newer slot of the ring. All writes over one pair arrive in order, and none arrives over a pair
// that is down at both ends. So two writes of one slot must never be under way over two living
// pairs:
//
// - After the loss of a pair, only what was announced over that pair last is announced again. What
//   went over another pair arrives, however late: announced again, the buffer could be complete and
//   its slot in use again by then.
// - What is announced again over pair C is a duplicate if the first write had arrived. If C is then
//   lost, the slot's next buffer could be announced over pair D before C is down at both ends. So
//   no slot is used again before that write has completed.
template <size_t kPairs = wire::kMaxQps, size_t kSlots = wire::kSlots>
class AnnouncementRules {
 public:
  // slots: of the ring.
  explicit AnnouncementRules(uint64_t slots = kSlots) : slots_(slots) { limit_.fill(kNone); }

  // Records that the buffers before `end` that are not recorded yet were announced over the pair.
  void record(size_t pair, uint64_t end) {
    const uint64_t oldest = end - std::min(end, slots_);
    set_pair(pair, {std::max(recorded_, oldest), end});
    recorded_ = end;
  }
  // The slots of these buffers were written again over the pair, which awaits no confirmation of
  // such a write yet.
  void on_announced_again(size_t pair, const BufferRange& buffers) {
    set_pair(pair, buffers);
    set_limit(pair, buffers.first + slots_);
  }
  // Such a write over the pair has completed.
  void on_written(size_t pair) { set_limit(pair, kNone); }
  // Whether such a write over the pair has not completed.
  bool awaits_confirmation(size_t pair) const { return limit_[pair] != kNone; }
  // The pair is down at both ends.
  void on_recovered(size_t pair) {
    set_limit(pair, kNone);
    std::ranges::replace(pair_of_slot_, static_cast<uint8_t>(pair), kLost);
  }
  // Returns the first run of buffers in `among` whose last announcement went over a lost pair; its
  // end, as an empty range, where every one may still arrive. `among` fits into the ring.
  BufferRange first_lost(const BufferRange& among) const {
    uint64_t first = among.first;
    while (first < among.end && pair_of_slot(first) != kLost) ++first;
    uint64_t end = first;
    while (end < among.end && pair_of_slot(end) == kLost) ++end;
    return {first, end};
  }
  static constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
  // Buffers may be announced up to this number, exclusive. kNone: there is no limit.
  uint64_t end() const { return end_; }
  static constexpr uint8_t kLost = 0xff;
  // The pair that announced the buffer last, or kLost.
  uint8_t pair_of_slot(uint64_t buffer) const { return pair_of_slot_[buffer % slots_]; }
  // For the model, which recognises states.
  template <class Add>
  void add_to(size_t pair, Add&& add) const {
    add(limit_[pair]);
  }

 private:
  static_assert(kPairs < kLost);

  void set_pair(size_t pair, const BufferRange& buffers) {
    for (uint64_t buffer = buffers.first; buffer < buffers.end; ++buffer) {
      pair_of_slot_[buffer % slots_] = static_cast<uint8_t>(pair);
    }
  }
  void set_limit(size_t pair, uint64_t limit) {
    limit_[pair] = limit;
    end_ = *std::min_element(limit_.begin(), limit_.end());
  }

  uint64_t slots_;
  uint64_t recorded_ = 0;  // buffers before this number are recorded
  uint64_t end_ = kNone;
  std::array<uint64_t, kPairs> limit_;
  std::array<uint8_t, kSlots> pair_of_slot_{};
};

}  // namespace gdr::transport
