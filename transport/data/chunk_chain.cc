#include "transport/data/chunk_chain.h"

namespace gdr::transport {

void ChunkChain::add(const QueuePair& pair, const RdmaWrite& data, const RdmaWrite* separate_end,
                     uint32_t immediate, uint64_t wr_id) {
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

ibv_send_wr& ChunkChain::append(const RdmaWrite& write, uint64_t wr_id) {
  ibv_send_wr& wr = writes_[count_].emplace(*pair_, write).wr();
  wr.wr_id = wr_id;
  if (count_ > 0) writes_[count_ - 1]->wr().next = &wr;
  ++count_;
  return wr;
}

int ChunkChain::post() {
  end_ = nullptr;
  return gdr::transport::post(*pair_, &writes_[0]->wr());
}

}  // namespace gdr::transport
