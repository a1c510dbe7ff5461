// Events of a completion channel or of a context, posted by any process, read by the owner from a
// socket that poll() understands.
#pragma once

#include <cstdint>

#include "softhca/fabric/peer.h"
#include "softhca/fabric/process.h"

namespace softhca {

class EventQueue {
 public:
  // -1 in fd() when there is no room.
  explicit EventQueue(Process& process);
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;
  ~EventQueue();

  bool valid() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  uint32_t index() const { return index_; }

  // Waits as the descriptor's O_NONBLOCK says; false with errno set when there is none.
  bool next(SharedEvent* event);
  // Drops the events that `matches` names. Returns how many.
  template <class Predicate>
  uint32_t remove_if(Predicate matches) {
    SharedEventQueue& queue = process_.arena().events(index_);
    SharedLock lock(queue.mutex);
    uint32_t kept = queue.head;
    for (uint32_t i = queue.head; i != queue.tail; ++i) {
      SharedEvent event = queue.ring[i % kMaxEvents];
      if (!matches(event)) queue.ring[kept++ % kMaxEvents] = event;
    }
    uint32_t removed = queue.tail - kept;
    queue.tail = kept;
    return removed;
  }

 private:
  Process& process_;
  uint32_t index_ = 0;
  int fd_ = -1;
};

// Adds an event to a queue of `owner` and wakes its reader. False when the queue has gone or is
// full (a full queue means that nobody reads it).
bool post_event(const Process& process, const Peer& owner, uint32_t queue, SharedEvent event);

}  // namespace softhca
