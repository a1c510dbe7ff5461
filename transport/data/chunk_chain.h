// The writes of chunks that are posted together.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "transport/pairs/queue_pair.h"
#include "transport/pairs/rdma_write.h"

namespace gdr::transport {

// A grouped receive is served by as many sends. Posted one by one, each rings a doorbell and is
// signalled. Here they become one chain on one QP, with one doorbell and one completion: RC
// completes requests in order, so that the completion of the last one stands for all. Other chunks
// are a chain each.
//
// The chain of a group goes out with the last message of the group. An incomplete one goes out at
// the second poll since its last message, so that nothing that is held back waits for another
// message; why at the second one follows from how NCCL's proxy calls isend and test
// (docs/adr/0009).
class ChunkChain {
 public:
  bool empty() const { return end_ == nullptr; }
  // The QP of the chain; not empty().
  const QueuePair& pair() const { return *pair_; }

  // Whether one more chunk does not fit. A whole group fits, unless the peer
  // changes the number of a group's buffers while it is served.
  bool full() const { return count_ + kMostWritesEach > kMostWrites; }

  // Adds the write of a chunk's data, and that of its separate end unless that is null; not full().
  // The last one carries the immediate. The first chunk chooses the QP.
  void add(const QueuePair& pair, const RdmaWrite& data, const RdmaWrite* separate_end,
           uint32_t immediate, uint64_t wr_id);
  // Counts a poll of the comm. Returns whether the chain has waited long enough.
  bool is_due() { return ++polls_ >= kPolls; }
  // Posts the chain, which then is empty. Returns an errno value; 0 is success.
  int post();
  void drop() { end_ = nullptr; }

 private:
  static constexpr int kPolls = 2;
  static constexpr int kMostWritesEach = 2;
  static constexpr int kMostWrites = kMostWritesEach * wire::kMaxGroup;

  ibv_send_wr& append(const RdmaWrite& write, uint64_t wr_id);

  std::array<std::optional<WriteRequest>, kMostWrites> writes_;
  int count_ = 0;
  int polls_ = 0;               // of the comm, since the last chunk
  ibv_send_wr* end_ = nullptr;  // of the last chunk; null: the chain is empty
  const QueuePair* pair_ = nullptr;
};

}  // namespace gdr::transport
