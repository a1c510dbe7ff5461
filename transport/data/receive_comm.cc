#include "transport/data/receive_comm.h"

namespace gdr::transport {

bool ReceiveComm::irecv(const ReceiveArrays& buffers, Request** request) {
  *request = nullptr;
  const int count = buffers.count;
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
    slots_.fill(buffers, index, taken, connection_.peer().sequence_base);
    sizes |= buffers.bytes[index];
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

// The receives of the QPs are posted in advance and belong to no buffer. So what is observed is the
// buffer: from its clear-to-send, which is what this end posts for it, to its last chunk.
bool ReceiveComm::irecv_observed(const ReceiveArrays& buffers, void* const* parents,
                                 Request** request) {
  if (!irecv(buffers, request)) return false;
  if (*request == nullptr || parents == nullptr) return true;
  const QueuePair& pair = connection_.rails().clear_to_send_pair();
  for (int i = 0; i < buffers.count; ++i) {
    if (parents[i] == nullptr) continue;
    const uint64_t number = (*request)->first + i;
    const ObservedWorkRequest work{static_cast<int>(pair.rail), number, IBV_WC_RECV_RDMA_WITH_IMM,
                                   pair.number, buffers.bytes[i]};
    const WorkRequestObserver& observer = connection_.options().observer;
    void* event = observer.posted(observer.context, parents[i], work);
    if (event != nullptr) slots_.observe(*request, number, event);
  }
  return true;
}

bool ReceiveComm::iflush(const ReceiveArrays& buffers, Request** request) {
  *request = nullptr;
  if (connection_.options().flush_disabled) return true;
  for (int last = buffers.count - 1; last >= 0; --last) {
    const auto* memory = static_cast<const MemoryHandle*>(buffers.memory[last]);
    if (buffers.bytes[last] == 0 || memory->host) continue;
    return flushes_.post(buffers.data[last], *memory, request);
  }
  return true;
}

}  // namespace gdr::transport
