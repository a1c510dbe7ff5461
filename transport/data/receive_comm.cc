#include "transport/data/receive_comm.h"

namespace gdr::transport {

template <class Buffers>
inline bool ReceiveComm::receive_into(const Buffers& buffers, int count, Request** request) {
  *request = nullptr;
  if (!slots_.announcements().has_room() || !slots_.are_free(count)) [[unlikely]]
    return wait_for_room();
  if (connection_.failed()) [[unlikely]]
    return false;
  Request* taken = receives_.take();
  if (taken == nullptr) return progress();
  const uint64_t first = slots_.head();
  taken->buffers = static_cast<uint8_t>(count);
  taken->pending = static_cast<uint16_t>(count);
  taken->first = first;
  taken->whole = wire::encode({wire::slot_of(first), 1, wire::stamp_of(first), false});
  size_t sizes = 0;
  int index = 0;
  do {
    const ReceiveBuffer buffer = buffers[index];
    slots_.fill(buffer, index, taken, connection_.peer().sequence_base);
    sizes |= buffer.bytes;
  } while (++index < count);
  slots_.advance(count);
  // Before the sender can know of it: PeerLink::is_idle.
  connection_.link().count_posted();
  if (!slots_.announcements().on_posted(first + count, sizes)) return false;
  *request = taken;
  return true;
}

bool ReceiveComm::wait_for_room() {
  connection_.link().set_awaits_pair(slots_.announcements().is_paused());
  return progress();
}

bool ReceiveComm::irecv(const ReceiveBuffer* buffers, int count, Request** request) {
  return receive_into(buffers, count, request);
}

bool ReceiveComm::irecv(const ReceiveArrays& buffers, Request** request) {
  return receive_into(buffers, buffers.count, request);
}

// The receives of the QPs are posted in advance and belong to no buffer. So what is observed is the
// buffer: from its clear-to-send, which is what this end posts for it, to its last chunk.
bool ReceiveComm::irecv_observed(const ReceiveBuffer* buffers, int count, void* const* parents,
                                 Request** request) {
  if (!irecv(buffers, count, request)) return false;
  if (*request == nullptr || parents == nullptr) return true;
  const QueuePair& pair = connection_.rails().clear_to_send_pair();
  for (int i = 0; i < count; ++i) {
    if (parents[i] == nullptr) continue;
    const uint64_t number = (*request)->first + i;
    const ObservedWorkRequest work{static_cast<int>(pair.rail), number, IBV_WC_RECV_RDMA_WITH_IMM,
                                   pair.number, buffers[i].bytes};
    const WorkRequestObserver& observer = connection_.options().observer;
    void* event = observer.posted(observer.context, parents[i], work);
    if (event != nullptr) slots_.observe(*request, number, event);
  }
  return true;
}

// `bytes` are those that were received.
static bool needs_flush(const ReceiveBuffer& buffer) {
  return buffer.bytes > 0 && !buffer.memory->host;
}

bool ReceiveComm::iflush(const ReceiveBuffer* buffers, int count, Request** request) {
  *request = nullptr;
  if (connection_.options().flush_disabled) return true;
  int last = count - 1;
  while (last >= 0 && !needs_flush(buffers[last])) --last;
  if (last < 0) return true;
  return flushes_.post(buffers[last].data, *buffers[last].memory, request);
}

}  // namespace gdr::transport
