// The pairs of a sender that spreads its chunks over several: which of them can be used, what is
// outstanding on each, and which one carries the next chunk.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "transport/data/request.h"
#include "transport/pairs/queue_pair.h"
#include "transport/pairs/rail_load.h"
#include "transport/pairs/rail_set.h"
#include "transport/pairs/work_id.h"
#include "transport/recovery/recovery.h"

namespace gdr::transport {

// What is needed to count a chunk as complete, and to send it again over another pair.
struct SentChunk {
  Request* request;  // of its message
  size_t from;       // offset in the message
  size_t bytes;
  uint32_t work_requests;  // that it occupies in the send queue
  uint32_t failures;       // how often its pair was lost with it as the first that did not arrive
  void* event;             // the observer's; null: its completion is not reported
};

// A ring. A reliable-connected QP completes its requests in order, so that the oldest chunk is
// always acknowledged first. Chunks are numbered from 0 in each epoch of the pair, as the receiver
// numbers their immediates. Most chunks are whole messages, of which the request says all that is
// needed, so that its address is all that is kept. Never allocates after its creation.
class SentChunks {
 public:
  static constexpr size_t kCapacity = 512;

  // Room for at least `most` chunks, up to kCapacity.
  explicit SentChunks(size_t most)
      : parts_mask_(std::bit_ceil(most) - 1),
        parts_(std::make_unique_for_overwrite<SentChunk[]>(parts_mask_ + 1)) {}

  bool empty() const { return acknowledged_ == posted_; }
  size_t size() const { return static_cast<size_t>(posted_ - acknowledged_); }
  // How many were posted in this epoch, and how many of those are no longer in the ring: the
  // numbers of the next chunk and of the oldest one.
  uint64_t posted() const { return posted_; }
  uint64_t acknowledged() const { return acknowledged_; }

  void push(const SentChunk& chunk) {
    wholes_[posted_ % kCapacity] = nullptr;
    parts_[posted_++ & parts_mask_] = chunk;
  }
  // A message of one work request that nobody observes. Its request stays as it is until pop().
  void push_whole(Request* request) { wholes_[posted_++ % kCapacity] = request; }
  // The oldest chunk, if push_whole() has added it; else null.
  Request* oldest_whole() const { return wholes_[acknowledged_ % kCapacity]; }
  // Removes the oldest chunk, which is one of push_whole().
  void pop_whole() { ++acknowledged_; }
  SentChunk pop() { return at(acknowledged_++); }
  SentChunk at(uint64_t number) const {
    Request* whole = wholes_[number % kCapacity];
    return whole == nullptr ? parts_[number & parts_mask_]
                            : SentChunk{whole, 0, whole->bytes[0], 1, 0, nullptr};
  }
  // Takes the event away from a chunk.
  void* take_event(uint64_t number) {
    if (wholes_[number % kCapacity] != nullptr) return nullptr;
    return std::exchange(parts_[number & parts_mask_].event, nullptr);
  }
  // Begins an epoch. The ring is empty.
  void restart() { acknowledged_ = posted_ = 0; }

 private:
  uint64_t acknowledged_ = 0;
  uint64_t posted_ = 0;
  std::array<Request*, kCapacity> wholes_;  // null: see parts_. Indeterminate until it is pushed
  // Not touched before there is one that is no whole message.
  const size_t parts_mask_;  // of their number, which is a power of two
  std::unique_ptr<SentChunk[]> parts_;
};

// Where a pair is between its loss and its return. See Recovery.
enum class PairState : uint8_t {
  kUsable,
  kLost,  // it failed; which of its chunks have arrived is not known yet
  kDown,  // nothing of it is left
};

struct SpreadPair {
  SpreadPair(const QueuePair& qp, Recovery& recovery, size_t most_chunks)
      : queue_pair(&qp),
        counters(&recovery.counters(qp.rail)),
        acknowledged(&recovery.arrivals(qp.index).count),
        standby(qp.standby),
        sent(most_chunks) {
    begin_epoch(0);
  }

  // What a chunk carries is computed once in each epoch, so that posting one and recognising its
  // completion are an addition and a comparison.
  void begin_epoch(uint32_t number) {
    epoch = number;
    free = depth();
    first_id = encode(WorkId{WorkKind::kChunk, queue_pair->index, number, 0});
    stamp = wire::encode({0, 1, wire::stamp_of(0, number), /*size_in_table=*/false});
    sent.restart();
  }
  // Entries of the send queue that chunks may occupy; 0 without a QP.
  uint32_t depth() const {
    constexpr uint32_t kReserved = Recovery::kReservedSends;
    return std::max(queue_pair->send_entries, kReserved) - kReserved;
  }
  // The wr_id of the chunk of that number.
  uint64_t wr_id(uint64_t number) const { return first_id | static_cast<uint32_t>(number); }
  // Behind the end of a chunk of so many bytes.
  [[gnu::always_inline]] void count_acknowledged(size_t bytes) {
    acknowledged->store(sent.acknowledged(), std::memory_order_release);
    counters->count(bytes);
  }
  // Of the chunk that is to be acknowledged next.
  uint64_t next_id() const { return wr_id(sent.acknowledged()); }

  const QueuePair* queue_pair;
  RailCounters* counters;               // of its rail
  std::atomic<uint64_t>* acknowledged;  // PairArrivals::count
  bool standby;
  bool is_measured = false;  // the load of its path is
  PairState state = PairState::kUsable;
  uint32_t path = 0;      // of RailLoad
  uint32_t free = 0;      // entries of the send queue, while it is usable
  uint32_t epoch = 0;     // how often it has returned
  uint32_t stamp = 0;     // the bits of the immediates that name the epoch
  uint64_t first_id = 0;  // the wr_id of the epoch's first chunk
  SentChunks sent;
};

// The load of a path is measured where it can matter: with one active path, chunks go over that,
// and the paths that stand by are measured from their first chunk on. Such a connection needs no
// time.
//
// Allocates when it is created and never again.
class SpreadPairs {
 public:
  using Time = RailLoad::Time;
  // The most chunks of one pair that are recorded. Its send queue has room for fewer under way: the
  // 247 of its 255 entries that Recovery::kReservedSends leaves, or 119 of 127 where one pair is
  // active, and 55 of 63 of a pair that stands by for it.
  static constexpr uint32_t kChunks = 256;

  // rails: in which the peer's rails are known.
  SpreadPairs(const RailSet& rails, Recovery& recovery);

  size_t size() const { return pairs_.size(); }
  SpreadPair& operator[](size_t index) { return pairs_[index]; }
  const SpreadPair& operator[](size_t index) const { return pairs_[index]; }
  RailLoad& load() { return load_; }
  // The rail of this end that a path of load() takes.
  uint32_t rail_of(uint32_t path) const { return paths_[path].rail; }
  // Paths and pairs that are not on standby.
  uint32_t active_paths() const { return active_paths_; }
  uint32_t active_pairs() const { return active_pairs_; }
  // The least SpreadPair::depth() of the pairs that have a QP.
  uint32_t queue_depth() const;
  // Whether choose() looks at the time.
  bool choice_needs_time() const { return active_paths_ > 1 || active_usable_ == 0; }
  // Whether acknowledge() looks at the time.
  bool acknowledgement_needs_time() const { return active_paths_ > 1 || on_standby_ > 0; }
  // Whether nothing is outstanding but on the only active path, all pairs of which are usable. With
  // several active paths, which may be over one rail of this end, each poll has to be timed.
  bool only_active_path_in_use() const {
    return active_usable_ == active_pairs_ && !acknowledgement_needs_time();
  }

  // The first pair that does not stand by, and the same where it is the only one, which then
  // carries everything while it is usable; null where several are active.
  SpreadPair& first_active() { return *first_active_; }
  SpreadPair* only_active() { return active_pairs_ == 1 ? first_active_ : nullptr; }
  // Returns the pair that is to carry the next chunk, of that many bytes and work requests; null
  // where none has room. A standby pair carries chunks only while no active one is usable. now: any
  // value unless choice_needs_time(), here and in push().
  SpreadPair* choose(size_t bytes, uint32_t work_requests, Time now);
  // choose() for one work request while only_active_path_in_use(). Out of line and without further
  // arguments, so that isend saves no registers for it.
  [[gnu::noinline]] SpreadPair* next_active() { return choose(0, 1, Time{}); }
  // Whether that many chunks fit, of so many work requests each; or one of them, on one pair.
  bool has_room(uint32_t chunks, uint32_t work_requests) const;
  bool has_room(const SpreadPair& pair, uint32_t work_requests) const {
    return pair.free >= work_requests && pair.sent.size() < kChunks;
  }

  // Reports the paths that are avoided, as they were late again and again: while another one
  // carries data that was not late itself.
  [[gnu::cold]] void report_late_paths(Recovery& recovery);

  // A chunk is being posted on the pair; its number is sent.posted() before that.
  void push(SpreadPair& pair, const SentChunk& chunk, Time now);
  // The pair's oldest chunk was acknowledged. Returns it. now: any value unless
  // acknowledgement_needs_time().
  SentChunk acknowledge(SpreadPair& pair, Time now);
  // A usable pair was lost.
  void lose(uint32_t index);
  // A pair that is down can be used again.
  void restart(uint32_t index, uint32_t epoch);

 private:
  struct Path {
    uint32_t rail, peer_rail;
    uint32_t turn = 0;  // the pair that is first in turn
  };

  static std::vector<Path> paths_of(const RailSet& rails);
  static std::vector<double> port_speeds(const RailSet& rails, const std::vector<Path>& paths);
  bool carries_data(const SpreadPair& pair) const {
    return pair.state == PairState::kUsable && (!pair.standby || active_usable_ == 0);
  }
  // The path on which the chunk will be acknowledged first; nothing where none has room.
  std::optional<size_t> choose_path(size_t bytes, uint32_t work_requests, Time now);
  // What push() and acknowledge() do beside that where the load of the path is measured.
  [[gnu::noinline]] void measure_push(const SpreadPair& pair, size_t bytes, Time now);
  [[gnu::noinline]] void measure_acknowledged(const SpreadPair& pair, size_t bytes, Time now);

  std::vector<SpreadPair> pairs_;
  std::vector<Path> paths_;
  RailLoad load_;
  uint32_t active_paths_ = 0;
  uint32_t active_pairs_ = 0;
  uint32_t active_usable_ = 0;          // active pairs that are usable
  SpreadPair* first_active_ = nullptr;  // the first pair that is not on standby
  uint32_t on_standby_ = 0;             // chunks outstanding on standby pairs that are usable
};

inline void SpreadPairs::push(SpreadPair& pair, const SentChunk& chunk, Time now) {
  pair.sent.push(chunk);
  pair.free -= chunk.work_requests;
  if (pair.is_measured) [[unlikely]]
    measure_push(pair, chunk.bytes, now);
}

inline SentChunk SpreadPairs::acknowledge(SpreadPair& pair, Time now) {
  const SentChunk chunk = pair.sent.pop();
  pair.free += chunk.work_requests;
  if (pair.is_measured) [[unlikely]]
    measure_acknowledged(pair, chunk.bytes, now);
  return chunk;
}

}  // namespace gdr::transport
