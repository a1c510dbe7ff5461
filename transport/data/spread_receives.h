// The receives of a connection by their pairs: what follows from an arrival over one, when a pair
// is lost and when it returns. (A pair, an epoch: docs/glossary.md.)
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "transport/data/connection.h"
#include "transport/data/flush.h"
#include "transport/data/receive_slots.h"
#include "transport/data/spread_path.h"

namespace gdr::transport {

// What the data path of a receiver knows of a pair.
struct ReceivePair {
  uint32_t index;
  RailCounters* counters;  // of its rail
  PairArrivals* arrivals;  // its own
  uint32_t rail;
  bool standby;
  bool usable = true;       // this end may write over it
  bool arrives = true;      // data may arrive over it, which may begin before it is usable
  uint32_t epoch = 0;       // modulo 2^16, as in a WorkId
  uint32_t stamp = 0;       // the bits of the immediates that name the epoch
  uint64_t receive_id = 0;  // the wr_id of the receives of the epoch
  uint32_t arrived = 0;     // chunks in this epoch
  // The arrived of the announcer at this pair's last refill; kNone: another one announced then.
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  uint32_t arrived_at_announcer = 0;
};

// Each arrival is counted by its pair, since the count is what both ends agree on when the pair is
// lost, and belongs to an epoch of it.
//
// No late write may replace a newer slot of the ring. So all announcements that may be under way go
// over one pair, the announcer, as writes of one pair arrive in order:
//
// - A lost announcer is replaced once it is down at both ends, since nothing of it arrives then; at
//   once where nothing that it announced is incomplete.
// - A living one is replaced once its last write is confirmed, since all before it have arrived.
//
// A buffer that is announced again may be complete before that write is read from the ring here. So
// no slot is filled again until it is confirmed.
class SpreadReceives final : public SpreadPath {
 public:
  // All outlive it.
  SpreadReceives(Connection& connection, ReceiveSlots& slots, Flushes& flushes);

  // Reads completions and does what follows from them. Returns false when the connection has
  // failed.
  [[gnu::noinline]] bool progress();

 private:
  // progress() on all rails. Also takes the news of the recovery.
  [[gnu::noinline]] bool progress_fully();
  [[gnu::noinline]] bool take(const ibv_wc* completions, int count);
  [[gnu::always_inline]] bool take_whole(ReceivePair& pair, const ibv_wc& wc);
  void on_work(const WorkId& id, const ibv_wc& wc);
  // Of other work than receives.
  void on_other(const WorkId& id, const ibv_wc& wc);
  // Counts an arrival of so many bytes, which the recovery has counted.
  [[gnu::always_inline]] void count_arrival(const ReceivePair& pair, uint64_t bytes) {
    pair.counters->count(bytes);
    flushes_.note_data(pair.rail);
  }
  // Behind count_arrival(): replaces the pair's receives a batch at a time.
  [[gnu::always_inline]] void refill_if_due(ReceivePair& pair) {
    if (++pair.arrived % RailSet::kReceiveBatch == 0) refill(pair.index);
  }
  [[gnu::noinline]] void refill(uint32_t index);
  [[gnu::cold]] void refuse_arrival();
  [[gnu::cold]] void receive_early(const WorkId& id);
  [[gnu::cold]] void begin_epoch(ReceivePair& pair, uint32_t epoch);
  [[gnu::cold]] void take_news();
  void on_lost(uint32_t index);
  void on_agreed(uint32_t index);
  void on_returned(const PairNews& news);

  // A write of clear-to-send is complete.
  void on_announced(uint64_t wr_id);
  // A batch of chunks has arrived over the pair since it came here last.
  void follow_data(uint32_t index);
  std::optional<uint32_t> best_announcer() const;
  void choose_announcer();
  void announce_over(uint32_t index);
  void confirm_announcements(uint64_t first);
  ClearToSendWriter& announcements() { return slots_.announcements(); }

  // Whether clear-to-send is written; if not, receives wait.
  enum class Announcing : uint8_t {
    kFreely,
    kConfirms,  // not until the announcer's last write is confirmed
    kLost,      // nor until the announcer is down at both ends
    kDown,      // nor until a pair is usable; nothing late of the announcer can arrive
  };

  Connection& connection_;
  PeerLink& link_;
  Recovery& recovery_;
  ReceiveSlots& slots_;
  std::vector<ReceivePair> pairs_;
  Flushes& flushes_;
  Announcing announcing_ = Announcing::kFreely;
  uint32_t announcer_ = 0;
  uint32_t wanted_ = 0;  // the pair that is to announce, where no usable one is better
};

}  // namespace gdr::transport
