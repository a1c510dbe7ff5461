// The receives of a connection by their pairs: what ReceiveComm does with an arrival over one, when
// a pair is lost and when it returns. (A pair, an epoch, clear-to-send: docs/glossary.md.)
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "transport/data/clear_to_send_writer.h"
#include "transport/data/connection.h"
#include "transport/data/spread_flushes.h"
#include "transport/data/spread_path.h"
#include "transport/recovery/recovery_rules.h"

namespace gdr::transport {

// Each arrival is counted by its pair, since the count is what both ends agree on when the pair is
// lost, and belongs to an epoch of it. Clear-to-send moves to another pair when its own is lost,
// and is written again for what may have been lost with it. It also moves, for what is announced
// from then on, to where the data comes: a sender that avoids a rail finds it slow, or packets are
// lost there, and then all messages would wait for their clear-to-send over it. ReceiveComm derives
// from it what its slots do with an arrival.
class SpreadReceives : public SpreadPath {
 public:
  // What the data path knows of a pair.
  struct Pair {
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
    int unconfirmed = 0;      // writes of clear-to-send, while another pair carries them
    // The arrived of the announcer at this pair's last refill; kNone: another one announced then.
    uint32_t arrived_at_announcer = 0;
  };

  // Both outlive it.
  SpreadReceives(Connection& connection, ClearToSendWriter& announcements,
                 std::vector<Flush> flushes, ServiceClass of_flushes);

  virtual ~SpreadReceives() = default;

  SpreadFlushes& flushes() { return flushes_; }
  // What follows where all rails have to be looked at, and from other completions than expected.
  virtual bool progress_fully() = 0;
  virtual bool take(const ibv_wc* completions, int count) = 0;
  Pair& first_pair() { return pairs_.front(); }
  // Counts an arrival of so many bytes, which the recovery has counted.
  [[gnu::always_inline]] void count_arrival(const Pair& pair, uint64_t bytes) {
    pair.counters->count(bytes);
    flushes_.note_data(pair.rail);
  }
  // Behind count_arrival(): replaces the pair's receives a batch at a time.
  [[gnu::always_inline]] bool refill_if_due(Pair& pair) {
    return ++pair.arrived % RailSet::kReceiveBatch != 0 || refill(pair.index);
  }

 protected:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  // Returns the number of the oldest buffer before `end` that is posted and not complete; `end`
  // where all are complete.
  virtual uint64_t oldest_incomplete(uint64_t end) const = 0;
  // Returns how many receives the incomplete ones of these buffers belong to.
  virtual int incomplete_receives(const BufferRange& among) const = 0;

  // The completion of a receive, for a chunk of so many bytes. on_data(wc, epoch) takes what it
  // brought; false: the connection has failed.
  template <class OnData>
  [[gnu::always_inline]] bool on_arrival(const WorkId& id, uint64_t bytes, const ibv_wc& wc,
                                         OnData on_data);
  // A success of other work.
  bool on_other(const WorkId& id);
  void on_announced(const WorkId& id);
  void on_failed_flush(const ibv_wc& wc) { flushes_.on_failed_read(wc); }
  [[gnu::noinline]] bool refill(uint32_t index);
  bool refuse_arrival();
  [[gnu::cold]] void receive_early(const WorkId& id);
  [[gnu::cold]] void begin_epoch(Pair& pair, uint32_t epoch);
  [[gnu::cold]] void take_news();
  void record_announced();
  void on_agreed(uint32_t index);
  void on_returned(const PairNews& news);
  bool is_rail_left(uint32_t rail) const;
  std::optional<uint32_t> best_announcer() const;
  void move_announcements(std::optional<uint32_t> best);
  void follow_data(uint32_t index);
  void repeat_announcements();
  int lost_receives(const BufferRange& among) const;
  void write_first_lost(const BufferRange& among);
  void finish_agreed(const MovedWork& moved);
  void apply_limit();
  bool uses_only_active() const;

  Connection& connection_;
  Recovery& recovery_;
  ClearToSendWriter& announcements_;
  std::vector<Pair> pairs_;
  std::optional<uint32_t> announcer_;   // the pair that carries clear-to-send; none: all are lost
  bool repeats_announcements_ = false;  // those that may have been lost with a pair
  std::vector<uint32_t> agreed_;        // pairs whose recovery is to be finished
  AnnouncementRules<> announcement_rules_;
  SpreadFlushes flushes_;
};

template <class OnData>
inline bool SpreadReceives::on_arrival(const WorkId& id, uint64_t bytes, const ibv_wc& wc,
                                       OnData on_data) {
  Pair& pair = pairs_[id.pair];
  if (!pair.arrivals->count_one(id.epoch)) [[unlikely]]
    return refuse_arrival();
  if (pair.epoch != id.epoch) [[unlikely]]
    receive_early(id);
  count_arrival(pair, bytes);
  return on_data(wc, id.epoch) && refill_if_due(pair);
}

}  // namespace gdr::transport
