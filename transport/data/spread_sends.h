// The sends of a connection that has several rails, or others standing by: each chunk goes over the
// pair that is best for it, and what a pair that is lost still had to carry goes over others.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "transport/data/chunk_write.h"
#include "transport/data/connection.h"
#include "transport/data/held_writes.h"
#include "transport/data/observed_work.h"
#include "transport/data/outgoing_message.h"
#include "transport/data/rail_tables.h"
#include "transport/data/recovery_rules.h"
#include "transport/data/spread_pairs.h"
#include "transport/data/spread_path.h"

namespace gdr::transport {

// What SendComm shares with its SpreadSends. All of it outlives them.
struct SpreadOwner {
  Comm* comm;
  RailTables* tables;
  SendRequests* requests;
  ObservedWork* observed;     // null: nobody observes
  HeldWrites* held;           // of the group that is being sent
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
  // its receive, and not smaller.
  bool sends_whole(size_t bytes) const {
    return bytes <= whole_at_most_ && connection_.link().is_quiet() && waiting_.empty();
  }
  // send() for most messages: as one chunk, which is not observed.
  bool send_whole(uint64_t buffer, const void* data, size_t bytes, const MemoryHandle& memory,
                  Request** request);
  // Whether hold() takes a message of so many bytes, of a slot that is plain and not smaller: it is
  // one chunk, and the connection is quiet with one active path.
  bool holds(size_t bytes) const { return sends_whole(bytes) && pairs_.only_active_path_in_use(); }
  // send() for such a message of a group: holds it back for the group's others. It counts as posted
  // in all else; where its pair is lost, so is the message, and goes again over another pair. last:
  // nothing of the group is still to come, and what is held is posted.
  bool hold(const Send& send, bool last, Request** request);
  // Posts what is held, if anything.
  void post_held();
  const SpreadPairs& pairs() const { return pairs_; }

 private:
  using Time = RailLoad::Time;

  // A message on its way, by its request.
  struct Message {
    OutgoingMessage out;
    const MemoryHandle::Keys* keys;
  };

  // A message of one chunk that is recorded as the `number`th of a pair and still to be posted.
  struct Recorded {
    Message* message;  // null: all requests are in use
    SentChunk chunk;
    uint64_t number;
  };

  const wire::ClearToSend& slot(uint64_t buffer) const {
    return tables_->ring[wire::slot_of(buffer)];
  }
  Time now() const { return connection_.options().now(); }

  // ---- sending
  Chunking cut(const Send& send) const;
  Message make_message(const Send& send, const Chunking& chunks) const;
  bool take_request(const Send& send, Message& message);
  uint32_t work_requests_for(const OutgoingMessage& message, size_t bytes) const;
  SentChunk chunk_at(const Message& message, size_t from) const;
  void post_all(const Message& message, Time now);
  void post_chunk(const Message& message, const SentChunk& chunk, uint32_t pair, Time now);
  uint16_t work_requests_of_whole(size_t bytes) const {
    return bytes > separate_end_above_ ? 2 : 1;
  }
  [[gnu::always_inline]] Recorded record_whole(const Send& send, uint32_t pair, Time now);
  [[gnu::always_inline]] ChunkEnd end_of(uint32_t pair, uint64_t number,
                                         const Message& message) const;
  [[gnu::always_inline]] void post_recorded(uint32_t pair, uint64_t number, const Message& message,
                                            const SentChunk& chunk);
  [[gnu::cold]] void on_refused(uint32_t pair, int err);
  [[gnu::always_inline]] int write_chunk(const Message& message, size_t from, size_t bytes,
                                         const QueuePair& pair, ChunkEnd end);
  [[gnu::noinline]] int write_parts(const Message& message, const SentChunk& chunk,
                                    const QueuePair& pair, ChunkEnd end);
  void report(const OutgoingMessage& message, size_t bytes, uint32_t pair);
  [[gnu::cold]] bool fail_too_large(size_t bytes, size_t most);

  // ---- completions
  // Also takes the news of the recovery, and posts what waits for room.
  bool progress_fully() override;
  bool take(const ibv_wc* completions, int count) override;
  void poll();
  [[gnu::cold]] void report_late_paths();
  bool on_success(const WorkId& id, Time now);  // false: the connection has failed
  [[gnu::noinline]] bool acknowledge_up_to(const WorkId& id, Time now);
  [[gnu::always_inline]] void acknowledge_oldest(uint32_t pair, Time now);
  void complete(const SentChunk& chunk);

  // ---- recovery
  [[gnu::cold]] void take_news();
  [[gnu::cold]] void lose(uint32_t pair);
  [[gnu::cold]] void agree(const PairNews& news);
  [[gnu::cold]] bool check_arrived(const PairNews& news);
  [[gnu::cold]] FailedWork count_failure(SentChunk& chunk);
  [[gnu::cold]] void move_chunks(Time now);
  [[gnu::cold]] bool move_chunk(const SentChunk& chunk, Time now);
  bool still_fits(const Message& message, const SentChunk& chunk);

  Connection& connection_;
  RailTables& tables_;
  SendRequests& requests_;
  ObservedWork* observed_;
  HeldWrites& held_;
  Recovery& recovery_;
  const uint64_t sequence_base_;
  const size_t max_write_bytes_;
  const size_t separate_end_above_;
  const bool split_data_on_qps_;
  SpreadPairs pairs_;
  const size_t whole_at_most_;     // messages of at most this many bytes are one chunk of one write
  std::vector<Message> messages_;  // by request
  std::vector<Time> failing_since_;  // by request: when a chunk of it failed for the first time
  std::vector<SentChunk> waiting_;   // that did not arrive over pairs that were lost
};

}  // namespace gdr::transport
