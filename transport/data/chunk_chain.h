// The writes of chunks that are posted together.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "transport/pairs/queue_pair.h"
#include "transport/pairs/rdma_write.h"

namespace gdr::transport {

// The sends that serve a grouped receive become one chain on one QP, with one doorbell and one
// completion: RC completes requests in order, so that the last one stands for all. Other chunks are
// a chain each. The chain of a group goes out with its last message; an incomplete one at the
// second poll since, so that nothing that is held back waits for another message (docs/adr/0009).
class ChunkChain {
 public:
  bool empty() const { return end_ == nullptr; }
  // The QP of the chain; not empty().
  const QueuePair& pair() const { return *pair_; }

  // A whole group fits, unless the peer changes its number of buffers while it is served.
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

inline void ChunkChain::add(const QueuePair& pair, const RdmaWrite& data,
                            const RdmaWrite* separate_end, uint32_t immediate, uint64_t wr_id) {
  if (empty()) {
    count_ = 0;
    pair_ = &pair;
  } else {
    end_->send_flags &= ~static_cast<unsigned>(IBV_SEND_SIGNALED);
  }
  end_ = &append(data, wr_id);
  if (separate_end != nullptr) end_ = &append(*separate_end, wr_id);
  make_signalled_end(end_, immediate);
  polls_ = 0;
}

inline ibv_send_wr& ChunkChain::append(const RdmaWrite& write, uint64_t wr_id) {
  ibv_send_wr& wr = writes_[count_].emplace(*pair_, write).wr();
  wr.wr_id = wr_id;
  if (count_ > 0) writes_[count_ - 1]->wr().next = &wr;
  ++count_;
  return wr;
}

inline int ChunkChain::post() {
  end_ = nullptr;
  return gdr::transport::post(*pair_, &writes_[0]->wr());
}

}  // namespace gdr::transport
