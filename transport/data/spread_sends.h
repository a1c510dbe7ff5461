// The sends of a connection: each chunk goes over the pair that is best for it, and what a pair
// that is lost still had to carry goes over others.
#pragma once

#include <cstdint>
#include <vector>

#include "transport/data/chunk_chain.h"
#include "transport/data/connection.h"
#include "transport/data/message_cutter.h"
#include "transport/data/request.h"
#include "transport/data/spread_pairs.h"
#include "transport/data/spread_path.h"
#include "transport/memory/memory_handle.h"
#include "transport/pairs/rail_set.h"

namespace gdr::transport {

// What isend was called with and found.
struct Send {
  size_t bytes;
  const void* data;
  uint64_t buffer;  // number of the receiver's buffer
  const MemoryHandle& memory;
  void* parent;  // what is reported to the observer as its origin; null: nothing is
};

// A healthy connection allocates nothing, takes no lock and makes no system call but for the
// clock's, which needs none on Linux. Where only one path is active and others stand by, as with
// most connections of a server of several HCAs, it does not look at the clock either.
//
// Exactly once: a pair that fails is not used before both ends have moved its QP to ERROR and the
// receiver has stated how many chunks arrived over it (PairNews::kAgreed). Those are complete, and
// only the others are posted again. docs/wire-protocol.md has the rules.
class SpreadSends final : public SpreadPath {
 public:
  // The chunks of a message that are reported to an observer: its first ones. NCCL's net_ib starts
  // as many events for a request (MAX_QPS_PER_REQ), and profilers need not have room for more:
  // NCCL's example has an array for them (MAX_EVENTS_PER_REQ), whose end it does not check.
  static constexpr uint32_t kMaxObservedChunks = 8;

  // All outlive it.
  SpreadSends(Connection& connection, RailTables& tables, SendRequests& requests,
              const MessageCutter& cutter);
  ~SpreadSends() { end_observation(); }

  // Sends a message whose clear-to-send has arrived. Returns false when the connection has failed.
  // A null *request with true: there is no room now; nothing was done. held: only where holds();
  // holds the message back for the others of its group. It counts as posted in all else; where its
  // pair is lost, so is the message, and goes again over another pair. last: nothing of the group
  // is still to come, and what is held is posted.
  bool send(const Send& send, bool held, bool last, Request** request);
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
  // Whether send() may hold a message of so many bytes back, of a slot that is plain and not
  // smaller: it is one chunk, and the connection is quiet.
  bool holds(size_t bytes) const {
    return bytes <= cutter_.whole_at_most() && may_be_quiet() && !link_.needs_attention();
  }
  // Reads completions and does what follows from them. Returns false when the connection has
  // failed.
  [[gnu::noinline]] bool progress();
  // The connection has failed or is closed: what is observed ends. Returns false.
  [[gnu::cold]] bool end_observation();

 private:
  using Time = RailLoad::Time;

  Time now() const { return connection_.options().now(); }
  const wire::ClearToSend& slot(const Request& request) const {
    return tables_->ring[wire::slot_of(request.first)];
  }

  // ---- sending
  void add(const SentChunk& chunk, uint32_t count, SpreadPair& pair, Time now);
  void post_chain();
  void post_held();
  [[gnu::cold]] bool on_refused(uint32_t pair, int err);
  [[gnu::cold]] void report(const Send& send, const QueuePair& qp, SentChunk* chunk) const;

  // ---- completions
  // progress() on all rails. Also takes the news of the recovery, and posts what waits for room.
  [[gnu::noinline]] bool progress_fully();
  [[gnu::noinline]] bool take(const ibv_wc* completions, int count);
  bool may_be_quiet() const { return pairs_.only_active_path_in_use() && waiting_.empty(); }
  void look_if_quiet(bool may_be);
  void poll();
  bool on_success(const WorkId& id, Time now);  // false: the connection has failed
  [[gnu::always_inline]] void complete(const SentChunk& chunk);

  // ---- recovery
  [[gnu::cold]] void take_news();
  [[gnu::cold]] void lose(uint32_t pair);
  [[gnu::cold]] void agree(const PairNews& news);
  [[gnu::cold]] void send_again(Time now);

  Connection& connection_;
  PeerLink& link_;
  RailTables& tables_;
  SendRequests& requests_;
  Recovery& recovery_;
  SpreadPairs pairs_;
  SpreadPair* const active_;  // the only one; null where there are several
  MessageCutter cutter_;
  size_t whole_below_ = 0;          // see sends_whole(); 0: it takes none
  ChunkChain chain_;                // of the group that is being sent, or of the next chunk
  std::vector<SentChunk> waiting_;  // that did not arrive over pairs that were lost
};

[[gnu::always_inline]] inline void fill(Request* request, const Send& send, uint32_t chunks) {
  request->pending = static_cast<uint16_t>(chunks);
  request->bytes[0] = send.bytes;
  request->first = send.buffer;
  request->data = send.data;
  request->memory = &send.memory;
}

// The write of `bytes` bytes at offset `from` of a message into the buffer that `to` announces.
[[gnu::always_inline]] inline RdmaWrite write_of(const Request& request, size_t from, size_t bytes,
                                                 const wire::ClearToSend& to,
                                                 const QueuePair& pair) {
  return RdmaWrite{
      .source = reinterpret_cast<uint64_t>(request.data) + from,
      .bytes = static_cast<uint32_t>(bytes),
      .lkey = request.memory->keys[pair.rail].lkey,
      .target = to.address + from,
      .rkey = to.rkey[pair.peer_rail],
      .cpu_readable = request.memory->host,
  };
}

// The request is its own record, and the pair keeps the order in which requests were posted.
inline bool SpreadSends::send_whole(const Send& send, const wire::ClearToSend& to, SpreadPair& pair,
                                    Request* taken) {
  fill(taken, send, 1);
  const QueuePair& qp = *pair.queue_pair;
  const RdmaWrite write = write_of(*taken, 0, send.bytes, to, qp);
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
