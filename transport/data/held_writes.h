// The writes of a group's messages that wait for the group's others, to be posted together.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "transport/data/chunk_write.h"
#include "transport/pairs/queue_pair.h"
#include "transport/pairs/rdma_write.h"

namespace gdr::transport {

// A grouped receive is served by as many sends. Posted one by one, each rings a doorbell and is
// signalled. Here they become one chain on one QP, with one doorbell and one completion: RC
// completes requests in order, so that the completion of the last one stands for all.
//
// The chain goes out with the last message of the group. An incomplete one goes out at the second
// poll since its last message, so that nothing that is held back waits for another message; why at
// the second one follows from how NCCL's proxy calls isend and test (docs/adr/0009).
class HeldWrites {
 public:
  bool empty() const { return end_ == nullptr; }
  // The QP of those that are held; not empty().
  const QueuePair& pair() const { return *pair_; }

  // Whether there is no room for one more message. There is room for a whole group, unless the peer
  // changes the number of a group's buffers while it is served.
  bool full() const { return count_ + kMostWritesEach > kMostWrites; }

  // Adds a message of one chunk; not full(). The first one chooses the QP.
  void add(const QueuePair& pair, const ChunkWrites& writes, ChunkEnd end);
  // Counts a poll of the comm. Returns whether the chain has waited long enough.
  bool is_due() { return ++polls_ >= kPolls; }
  // Posts the chain. Returns an errno value; 0 is success.
  int post();
  void drop() { end_ = nullptr; }

 private:
  static constexpr int kPolls = 2;
  static constexpr int kMostWritesEach = 2;
  static constexpr int kMostWrites = kMostWritesEach * wire::kMaxGroup;

  ibv_send_wr& append(const RdmaWrite& write, uint64_t wr_id);

  std::array<std::optional<WriteRequest>, kMostWrites> writes_;
  int count_ = 0;
  int polls_ = 0;               // of the comm, since the last message
  ibv_send_wr* end_ = nullptr;  // of the last message; null: nothing is held
  const QueuePair* pair_ = nullptr;
};

}  // namespace gdr::transport
