#include "transport/data/clear_to_send_writer.h"

#include <algorithm>
#include <utility>

namespace gdr::transport {

bool ClearToSendWriter::write_waiting() {
  const uint64_t wrap = announced_ - wire::slot_of(announced_) + wire::kSlots;
  if (!write_slots(announced_, std::min(end_, wrap))) return false;
  if (wrap < end_ && !write_slots(wrap, end_)) return false;
  announced_ = end_;
  open_ += std::exchange(waiting_, 0);
  return true;
}

// Writes the slots of buffers that follow each other in the ring.
bool ClearToSendWriter::write_slots(uint64_t first, uint64_t end) {
  const QueuePair& pair = connection_.rails().clear_to_send_pair();
  const wire::ClearToSend* slots = &tables_->ring[wire::slot_of(first)];
  WriteRequest request(pair, tables_.copy_to_peer(slots, end - first, connection_.peer(), pair));
  ibv_send_wr& wr = request.wr();
  wr.wr_id = kSignalEvery;  // the number of writes that its completion confirms
  if (++unconfirmed_ % kSignalEvery == 0) wr.send_flags |= IBV_SEND_SIGNALED;
  if (int err = post(pair, &wr); err != 0) [[unlikely]] {
    connection_.fail_verbs("posting a clear-to-send", err);
    return false;
  }
  return true;
}

}  // namespace gdr::transport
