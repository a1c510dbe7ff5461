#include "transport/data/held_writes.h"

namespace gdr::transport {

void HeldWrites::add(const QueuePair& pair, const ChunkWrites& writes, ChunkEnd end) {
  if (empty()) {
    count_ = 0;
    pair_ = &pair;
  } else {
    end_->send_flags &= ~static_cast<unsigned>(IBV_SEND_SIGNALED);
  }
  end_ = &append(writes.data, end.wr_id);
  if (writes.end) end_ = &append(*writes.end, end.wr_id);
  make_signalled_end(end_, end.immediate);
  polls_ = 0;
}

ibv_send_wr& HeldWrites::append(const RdmaWrite& write, uint64_t wr_id) {
  ibv_send_wr& wr = writes_[count_].emplace(*pair_, write).wr();
  wr.wr_id = wr_id;
  if (count_ > 0) writes_[count_ - 1]->wr().next = &wr;
  ++count_;
  return wr;
}

int HeldWrites::post() {
  end_ = nullptr;
  return gdr::transport::post(*pair_, &writes_[0]->wr());
}

}  // namespace gdr::transport
