// The sends of a connection: each chunk goes over the pair that is best for it, and what a pair
// that is lost still had to carry goes over others.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "transport/data/chunk_write.h"
#include "transport/data/connection.h"
#include "transport/data/held_writes.h"
#include "transport/data/observed_work.h"
#include "transport/data/outgoing_message.h"
#include "transport/data/spread_pairs.h"
#include "transport/data/spread_path.h"
#include "transport/pairs/rail_tables.h"
#include "transport/recovery/recovery_rules.h"

namespace gdr::transport {

// What SendComm shares with its SpreadSends. All of it outlives them.
struct SpreadOwner {
  Comm* comm;
  RailTables* tables;
  SendRequests* requests;
  ObservedWork* observed;     // null: nobody observes
  uint64_t sequence_base;     // wire::EndPoint's
  size_t max_write_bytes;     // the ports' largest message
  size_t separate_end_above;  // larger messages end in a write of their own (adaptive routing)
  bool split_data_on_qps;     // each message is split over all QPs at least
};

// Exactly once: a pair that fails is not used before both ends have moved its QP to ERROR and the
// receiver has stated how many chunks arrived over it (PairNews::kAgreed). Those are complete, and
// only the others are posted again. docs/wire-protocol.md has the rules.
//
// A healthy connection allocates nothing, takes no lock and makes no system call but for the
// clock's, which needs none on Linux. Where only one path is active and others stand by, as with
// most connections of a server of several HCAs, it does not look at the clock either.
class SpreadSends final : public SpreadPath {
 public:
  SpreadSends(const SpreadOwner& owner, SpreadPairs pairs);

  // Sends a message whose clear-to-send has arrived. Returns false when the connection has failed.
  // A null *request with true: there is no room now; nothing was done.
  bool send(const Send& send, Request** request);
  // Whether send_whole() takes a message of so many bytes, of a slot that is plain, the only one of
  // its receive, and not smaller: it is one write, one path is active and usable, and nothing goes
  // ahead of it. Where the link needs no attention.
  bool sends_whole(size_t bytes) const { return bytes < whole_below_; }
  // The pair of such a message: the only active one, whose queue may be full, or the next in turn;
  // null where none has room.
  SpreadPair* pair_of_whole() { return active_ != nullptr ? active_ : pairs_.next_active(); }
  // send() for such a message, with its request. Returns false when the connection has failed.
  [[gnu::always_inline]] bool send_whole(const Send& send, const wire::ClearToSend& to,
                                         SpreadPair& pair, Request* taken);
  // Whether hold() takes a message of so many bytes, of a slot that is plain and not smaller: it is
  // one chunk, and the connection is quiet.
  bool holds(size_t bytes) const {
    return bytes <= whole_at_most_ && may_be_quiet() && !link_.needs_attention();
  }
  // send() for such a message of a group: holds it back for the group's others. It counts as posted
  // in all else; where its pair is lost, so is the message, and goes again over another pair. last:
  // nothing of the group is still to come, and what is held is posted.
  bool hold(const Send& send, bool last, Request** request);
  // Posts what is held, if anything.
  void post_held();
  // Reads completions and does what follows from them. Returns false when the connection has
  // failed.
  [[gnu::noinline]] bool progress();
  // The connection has failed: what is observed ends. Returns false.
  [[gnu::cold]] bool end_observation();
  const SpreadPairs& pairs() const { return pairs_; }

 private:
  using Time = RailLoad::Time;

  const wire::ClearToSend& slot(uint64_t buffer) const {
    return tables_->ring[wire::slot_of(buffer)];
  }
  Time now() const { return connection_.options().now(); }

  // ---- sending
  Chunking cut(const Send& send) const;
  OutgoingMessage make_message(const Send& send, const Chunking& chunks) const;
  OutgoingMessage message_of(Request& request) const;
  [[gnu::always_inline]] static void fill(Request* request, const Send& send, uint32_t chunks);
  uint32_t work_requests_for(const OutgoingMessage& message, size_t bytes) const;
  SentChunk chunk_at(const OutgoingMessage& message, size_t from) const;
  void post_all(const OutgoingMessage& message, Time now);
  void post_chunk(const OutgoingMessage& message, const SentChunk& chunk, uint32_t pair, Time now);
  ChunkEnd end_of(const SpreadPair& pair, uint64_t number, const OutgoingMessage& message) const;
  [[gnu::cold]] bool on_refused(uint32_t pair, int err);
  void report(const OutgoingMessage& message, size_t bytes, uint32_t pair);
  bool went_on(Request** request) const;
  [[gnu::cold]] bool fail_too_large(size_t bytes, size_t most);

  // ---- completions
  // progress() on all rails. Also takes the news of the recovery, and posts what waits for room.
  [[gnu::noinline]] bool progress_fully();
  [[gnu::noinline]] bool take(const ibv_wc* completions, int count);
  bool may_be_quiet() const { return pairs_.only_active_path_in_use() && waiting_.empty(); }
  void look_if_quiet(bool may_be);
  void poll();
  [[gnu::cold]] void report_late_paths();
  bool on_success(const WorkId& id, Time now);  // false: the connection has failed
  bool acknowledge_up_to(const WorkId& id, Time now);
  [[gnu::always_inline]] void acknowledge_oldest(SpreadPair& pair, Time now);
  [[gnu::always_inline]] static void count_acknowledged(SpreadPair& pair, size_t bytes);
  [[gnu::always_inline]] void acknowledge_whole(SpreadPair& pair, Request* request);
  [[gnu::always_inline]] void complete(const SentChunk& chunk);
  [[gnu::cold]] void complete_observed(const SentChunk& chunk);

  // ---- recovery
  [[gnu::cold]] void take_news();
  [[gnu::cold]] void lose(uint32_t pair);
  [[gnu::cold]] void agree(const PairNews& news);
  [[gnu::cold]] bool check_arrived(const PairNews& news);
  [[gnu::cold]] FailedWork count_failure(SentChunk& chunk);
  [[gnu::cold]] void move_chunks(Time now);
  [[gnu::cold]] bool move_chunk(const SentChunk& chunk, Time now);
  bool still_fits(const OutgoingMessage& message, const SentChunk& chunk);

  Connection& connection_;
  PeerLink& link_;
  RailTables& tables_;
  SendRequests& requests_;
  ObservedWork* observed_;
  Recovery& recovery_;
  const uint64_t sequence_base_;
  const size_t max_write_bytes_;
  const size_t separate_end_above_;
  const bool split_data_on_qps_;
  SpreadPairs pairs_;
  SpreadPair* const active_;    // the only one; null where there are several
  const size_t whole_at_most_;  // messages of at most this many bytes are one chunk of one write
  size_t whole_below_ = 0;      // see sends_whole(); 0: it takes none
  HeldWrites held_;             // of the group that is being sent
  std::vector<Time> failing_since_;  // by request: when a chunk of it failed for the first time
  std::vector<SentChunk> waiting_;   // that did not arrive over pairs that were lost
};

inline void SpreadSends::fill(Request* request, const Send& send, uint32_t chunks) {
  request->pending = static_cast<uint16_t>(chunks);
  request->bytes[0] = send.bytes;
  request->first = send.buffer;
  request->data = send.data;
  request->memory = &send.memory;
}

// The request is its own record, and the pair keeps the order in which requests were posted.
inline bool SpreadSends::send_whole(const Send& send, const wire::ClearToSend& to, SpreadPair& pair,
                                    Request* taken) {
  fill(taken, send, 1);
  const QueuePair& qp = *pair.queue_pair;
  const RdmaWrite write{
      .source = reinterpret_cast<uint64_t>(send.data),
      .bytes = static_cast<uint32_t>(send.bytes),
      .lkey = send.memory.keys[qp.rail].lkey,
      .target = to.address,
      .rkey = to.rkey[qp.peer_rail],
      .cpu_readable = send.memory.host,
  };
  const uint32_t immediate =
      wire::encode({wire::slot_of(send.buffer), 1, wire::stamp_of(send.buffer), false}) |
      pair.stamp;
  const uint64_t id = pair.wr_id(pair.sent.posted());
  pair.sent.push_whole(taken);
  --pair.free;
  const int err = write_with_immediate(qp, write, immediate, id);
  return err == 0 || on_refused(qp.index, err);
}

}  // namespace gdr::transport
