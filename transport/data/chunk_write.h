// How a chunk of a message becomes work requests. Inline, as they are the core of the data path.
#pragma once

#include <cstdint>
#include <optional>

#include "transport/data/outgoing_message.h"
#include "transport/memory/memory_handle.h"
#include "transport/pairs/rail_tables.h"
#include "transport/pairs/rdma_write.h"

namespace gdr::transport {

// The write of the `bytes` bytes at offset `from`, no more than the port's largest message, into
// the buffer that `to` announces.
[[gnu::always_inline]] inline RdmaWrite write_of(const OutgoingMessage& message,
                                                 const wire::ClearToSend& to, size_t from,
                                                 size_t bytes, const QueuePair& pair) {
  return RdmaWrite{
      .source = message.source + from,
      .bytes = static_cast<uint32_t>(bytes),
      .lkey = message.memory->keys[pair.rail].lkey,
      .target = to.address + from,
      .rkey = to.rkey[pair.peer_rail],
      .cpu_readable = message.memory->host,
  };
}

// What the write that ends a chunk carries, and by which its completion is recognised.
struct ChunkEnd {
  uint32_t immediate;
  uint64_t wr_id;
};

// Where the fabric routes adaptively, the packets of a plain write can take several paths, as the
// HCA may place them in any order. A write with immediate does not profit: it consumes a receive
// and completes at the receiver, in order. So the data goes first as a plain write, and its end
// follows on the same QP as a write with immediate. RC executes requests in order, so that the
// receiver sees the end only after all of the data (NCCL's net_ib, p2p.cc, splits a message the
// same way above NCCL_IB_AR_THRESHOLD). The completion has no byte count of the data: the immediate
// states the message's size, and the end has no bytes. Where it cannot, the end is a write of the
// size, 8 bytes, to the slot's entry of the receiver's size table. Returns the write of the end.
[[gnu::always_inline]] inline RdmaWrite separate_end_of(const OutgoingMessage& message,
                                                        const RdmaWrite& data,
                                                        const QueuePair& pair,
                                                        const RailTables& tables,
                                                        const wire::EndPoint& peer) {
  RdmaWrite last = data;  // the keys and the address are not used, but valid
  last.bytes = 0;
  if (!message.states_size()) {
    uint64_t* size = &tables->sizes[wire::slot_of(message.buffer)];
    *size = message.bytes;
    last = tables.copy_to_peer(size, 1, peer, pair);
  }
  return last;
}

// The writes of a chunk, in their order.
struct ChunkWrites {
  RdmaWrite data;
  std::optional<RdmaWrite> end;  // without it, the data's write is the one with immediate
};

inline ChunkWrites writes_of(const OutgoingMessage& message, const RdmaWrite& data,
                             const QueuePair& pair, const RailTables& tables,
                             const wire::EndPoint& peer) {
  if (!message.separate_end) return {data, {}};
  return {data, separate_end_of(message, data, pair, tables, peer)};
}

// Where a chunk goes.
struct ChunkTarget {
  const wire::ClearToSend& to;  // the buffer's
  const QueuePair& pair;
  const RailTables& tables;
  const wire::EndPoint& peer;
};

// Posts the write of the `bytes` bytes at offset `from`. It and an end of its own take one
// doorbell. Returns an errno value; 0 is success.
inline int post_chunk(const OutgoingMessage& message, size_t from, size_t bytes,
                      const ChunkTarget& target, ChunkEnd end) {
  const QueuePair& pair = target.pair;
  const RdmaWrite data = write_of(message, target.to, from, bytes, pair);
  if (!message.separate_end) return write_with_immediate(pair, data, end.immediate, end.wr_id);
  WriteRequest data_only(pair, data);
  data_only.wr().wr_id = end.wr_id;
  const RdmaWrite last = separate_end_of(message, data, pair, target.tables, target.peer);
  return write_with_immediate(pair, last, end.immediate, end.wr_id, &data_only);
}

}  // namespace gdr::transport
