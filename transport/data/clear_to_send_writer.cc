#include "transport/data/clear_to_send_writer.h"

#include <algorithm>
#include <utility>

namespace gdr::transport {
namespace {

// Returns the number after the last buffer in the ring's order that begins with that buffer.
uint64_t end_of_ring(uint64_t first) { return first - wire::slot_of(first) + wire::kSlots; }

}  // namespace

// What could not be written on a pair that is lost counts as announced: it is announced again.
bool ClearToSendWriter::write_waiting() {
  const uint64_t first = announced_;
  const uint64_t end = end_;
  const bool wraps = wire::slot_of(first) + (end - first) > wire::kSlots;
  const bool written = wraps ? write_wrapped() : write_slots<false>(first, end);
  if (!written) return false;
  announced_ = end;
  open_ += std::exchange(waiting_, 0);
  return true;
}

// Out of line, so that write_waiting() saves no registers for a second write.
bool ClearToSendWriter::write_wrapped() {
  const uint64_t wrap = end_of_ring(announced_);
  return write_slots<false>(announced_, wrap) && write_slots<false>(wrap, end_);
}

// The last slot goes again where there is nothing else to write. Before the first receive that is
// one of zeros, which the sender's ring has there, too.
void ClearToSendWriter::confirm(uint64_t first) {
  pause();
  first = std::min(first, announced_);
  if (first == end_) --first;
  announced_ = end_;
  const uint64_t wrap = end_of_ring(first);
  if (wrap - first < end_ - first) {
    if (write_slots<false>(first, wrap)) (void)write_slots<true>(wrap, end_);
  } else {
    (void)write_slots<true>(first, end_);
  }
}

// Writes the slots of buffers that follow each other in the ring. kConfirmed: the completion is
// that of confirm().
template <bool kConfirmed>
inline bool ClearToSendWriter::write_slots(uint64_t first, uint64_t end) {
  const QueuePair& pair = connection_.rails().clear_to_send_pair();
  const wire::ClearToSend* slots = &tables_->ring[wire::slot_of(first)];
  WriteRequest request(pair, tables_.copy_to_peer(slots, end - first, connection_.peer(), pair));
  ibv_send_wr& wr = request.wr();
  wr.wr_id = wr_id_;
  if constexpr (kConfirmed) {
    wr.wr_id |= kConfirms;
    wr.send_flags |= IBV_SEND_SIGNALED;
  } else if (++unconfirmed_ % kSignalEvery == 0) {
    wr.send_flags |= IBV_SEND_SIGNALED;
  }
  if (int err = post(pair, &wr); err != 0) [[unlikely]]
    return on_failed_post(err);
  return true;
}

bool ClearToSendWriter::on_failed_post(int err) {
  return connection_.on_failed_post(connection_.rails().clear_to_send_pair(),
                                    decode_work_id(wr_id_).epoch, "a clear-to-send", err);
}

void ClearToSendWriter::pause() {
  open_ += std::exchange(waiting_, 0);
  unconfirmed_ = kNoRoom;
}

void ClearToSendWriter::resume() {
  unconfirmed_ = 0;
  connection_.link().set_awaits_pair(false);
}

}  // namespace gdr::transport
