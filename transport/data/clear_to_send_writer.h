// Announces posted receives to the sender: writes their clear-to-send slots into the sender's ring,
// several receives in one write where that costs no time.
#pragma once

#include <cstdint>

#include "transport/data/connection.h"
#include "transport/pairs/rail_set.h"

namespace gdr::transport {

// A receive here is a grouped receive of 1 to wire::kMaxGroup buffers. Buffers are numbered over
// the whole connection; buffer i has slot i % wire::kSlots, and slots are written in order.
class ClearToSendWriter {
 public:
  // While the sender knows of kAnnounceBelow receives that are not complete, further small ones
  // wait until there are kBatch of them: a full pipeline then costs a third of the writes,
  // doorbells and acknowledgements. NCCL keeps up to 8 receives posted, of which the sender then
  // always knows 5 or more (docs/adr/0005).
  static constexpr int kAnnounceBelow = 4;
  static constexpr int kBatch = 3;
  // A receive of which a buffer has this many bytes never waits: its transfer costs much more than
  // a write, and a sender that knows fewer receives has less under way. A power of two.
  static constexpr size_t kAnnounceAtOnce = size_t{64} << 10;

  // Entries of the send queue of the QP that carries the writes: more than the writes of NCCL's 8
  // receives, and so many that the completion queue which it shares with the QP's receives and the
  // flushes has 2^n - 1 entries (ReceiveComm).
  static constexpr int kQueueDepth = 31;
  static constexpr int kInlineBytes = kBatch * static_cast<int>(sizeof(wire::ClearToSend));

  ClearToSendWriter(Connection& connection, const RailTables& tables)
      : connection_(connection), tables_(tables) {}

  // Whether the send queue has room for the writes of one more receive.
  bool has_room() const {
    return unconfirmed_ < kQueueDepth - Recovery::kReservedSends - 2 * kWritesPerAnnouncement;
  }
  // Announces a receive whose slots are filled, now or with those that follow. end: the number
  // after its last buffer; sizes: the bytes of its buffers, combined by bitwise or. Returns false
  // where that failed, which fails the connection.
  bool on_posted(uint64_t end, size_t sizes) {
    end_ = end;
    ++waiting_;
    return (may_wait() && sizes < kAnnounceAtOnce) || write_waiting();
  }
  // Notes that a receive is complete, which may be the time to announce those that wait.
  [[gnu::always_inline]] void on_received() {
    --open_;
    announce_waiting();
  }
  // Takes the completion of a clear-to-send write.
  void on_written() { unconfirmed_ -= kSignalEvery; }

  // ---- SpreadReceives only
  // Of the writes that on_written() takes.
  uint64_t wr_id() const { return wr_id_; }
  // A send queue's entries are free again only once a completion at or after them has been polled,
  // so that writes of which none is signalled would fill the queue for good. One in kSignalEvery is
  // enough, since RC completes in order; signalling all of them would cost a completion and its
  // polling each (NCCL's net_ib, p2p.cc, signals its FIFO writes once per round of the ring).
  static constexpr int kSignalEvery = 8;
  static constexpr uint32_t kConfirms = 1;  // the WorkId's ordinal of confirm()
  // From here on the connection's clear_to_send_pair() carries the writes, with this wr_id. None is
  // under way there.
  void use(uint64_t wr_id) { wr_id_ = wr_id; }
  // Announces what waits, if it is time to.
  [[gnu::always_inline]] void announce_waiting() {
    if (waiting_ > 0 && !may_wait()) (void)write_waiting();
  }
  // has_room() is false until resume(), and nothing waits: confirm() announces all that is posted.
  void pause();
  bool is_paused() const { return unconfirmed_ > kQueueDepth; }
  // Pauses, and writes the slots of the buffers from number `first` on, of all that are not yet
  // announced, and at least the last one. The completion (kConfirms) shows that these have arrived,
  // and what was written over the pair before. A failure to post loses the pair in turn.
  [[gnu::cold]] void confirm(uint64_t first);
  // After that.
  void resume();

 private:
  static constexpr int kWritesPerAnnouncement = 2;  // at most: two where the ring wraps
  static constexpr int kReceivesOfNccl = 8;         // that NCCL has under way (NCCL_STEPS)
  // No receive of NCCL's waits for the confirmation of a write: data has come for all but the last
  // kReceivesOfNccl, so that their writes were executed, and the last of those that is signalled is
  // less than kSignalEvery older.
  static_assert(kQueueDepth - Recovery::kReservedSends - 2 * kWritesPerAnnouncement >=
                kReceivesOfNccl + kSignalEvery);

  // Of unconfirmed_ during a pause: has_room(), which is asked for every receive, then has one
  // number to look at.
  static constexpr int kNoRoom = 1024;
  static_assert(kNoRoom > 2 * kQueueDepth);

  bool may_wait() const { return open_ >= kAnnounceBelow && waiting_ < kBatch; }
  [[gnu::noinline]] bool write_waiting();
  [[gnu::noinline]] bool write_wrapped();
  template <bool kConfirmed>
  [[gnu::always_inline]] bool write_slots(uint64_t first, uint64_t end);
  [[gnu::cold]] bool on_failed_post(int err);

  Connection& connection_;
  const RailTables& tables_;
  uint64_t announced_ = 0;  // the buffers before it are known to the sender
  uint64_t end_ = 0;        // the buffers before it are posted
  int open_ = 0;            // receives that are announced and not complete
  int waiting_ = 0;         // receives that are posted and not announced
  int unconfirmed_ = 0;     // writes that no completion has confirmed
  uint64_t wr_id_ = 0;
};

}  // namespace gdr::transport
