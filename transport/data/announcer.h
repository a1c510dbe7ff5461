// Which pair of a receiver carries clear-to-send, and what of it is announced again after a loss.
// (A pair, an epoch, clear-to-send: docs/glossary.md.)
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "transport/data/clear_to_send_writer.h"
#include "transport/data/connection.h"
#include "transport/data/receive_slots.h"
#include "transport/recovery/recovery_rules.h"

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
  int unconfirmed = 0;      // writes of clear-to-send, while another pair carries them
  // The arrived of the announcer at this pair's last refill; kNone: another one announced then.
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  uint32_t arrived_at_announcer = 0;
};

// Clear-to-send moves to another pair when its own is lost, and is written again for what may have
// been lost with it. It also moves, for what is announced from then on, to where the data comes: a
// sender that avoids a rail finds it slow, or packets are lost there, and then all messages would
// wait for their clear-to-send over it.
class Announcer {
 public:
  // All outlive it.
  Announcer(Connection& connection, ReceiveSlots& slots, std::vector<ReceivePair>& pairs);

  // A write of clear-to-send is complete.
  void on_written(const WorkId& id);
  // A batch of chunks has arrived over the pair since it came here last.
  void follow_data(uint32_t index);
  // Called before the announcer changes or is down at both ends, so that an ordinary announcement
  // records nothing.
  void record();
  // Both ends have agreed on what has arrived over the pair. Its recovery is finished with the next
  // on_news_taken().
  void on_agreed(uint32_t index);
  // All news of the recovery are taken, so that what was lost with several pairs is announced again
  // only once.
  void on_news_taken();

 private:
  void apply_limit();
  std::optional<uint32_t> best() const;
  void move_to(std::optional<uint32_t> best);
  void repeat();
  void write_first_lost(const BufferRange& among);
  void finish_agreed();

  Connection& connection_;
  ClearToSendWriter& announcements_;
  const ReceiveSlots& slots_;
  std::vector<ReceivePair>& pairs_;
  std::optional<uint32_t> current_ = 0;  // the pair that carries clear-to-send; none: all are lost
  bool repeats_ = false;                 // those that may have been lost with a pair
  std::vector<uint32_t> agreed_;         // pairs whose recovery is to be finished
  AnnouncementRules<> rules_;
};

}  // namespace gdr::transport
