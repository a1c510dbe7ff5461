// The receives of a connection by their pairs: what follows from an arrival over one, when a pair
// is lost and when it returns. (A pair, an epoch: docs/glossary.md.)
#pragma once

#include <cstdint>
#include <vector>

#include "transport/data/announcer.h"
#include "transport/data/connection.h"
#include "transport/data/flush.h"
#include "transport/data/receive_slots.h"
#include "transport/data/spread_path.h"

namespace gdr::transport {

// Each arrival is counted by its pair, since the count is what both ends agree on when the pair is
// lost, and belongs to an epoch of it.
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
  bool on_success(const WorkId& id, const ibv_wc& wc);  // false: the connection has failed
  // A success of other work than receives.
  bool on_other(const WorkId& id);
  // Counts an arrival of so many bytes, which the recovery has counted.
  [[gnu::always_inline]] void count_arrival(const ReceivePair& pair, uint64_t bytes) {
    pair.counters->count(bytes);
    flushes_.note_data(pair.rail);
  }
  // Behind count_arrival(): replaces the pair's receives a batch at a time.
  [[gnu::always_inline]] bool refill_if_due(ReceivePair& pair) {
    return ++pair.arrived % RailSet::kReceiveBatch != 0 || refill(pair.index);
  }
  [[gnu::noinline]] bool refill(uint32_t index);
  [[gnu::cold]] bool refuse_arrival();
  [[gnu::cold]] void receive_early(const WorkId& id);
  [[gnu::cold]] void begin_epoch(ReceivePair& pair, uint32_t epoch);
  [[gnu::cold]] void take_news();
  void on_agreed(uint32_t index);
  void on_returned(const PairNews& news);
  [[gnu::cold]] bool finishes_flushes();

  Connection& connection_;
  PeerLink& link_;
  Recovery& recovery_;
  ReceiveSlots& slots_;
  std::vector<ReceivePair> pairs_;
  Announcer announcer_;
  Flushes& flushes_;
};

}  // namespace gdr::transport
