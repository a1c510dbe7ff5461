// The events of a completion channel or of a context: posted by any process, read by the owner. A
// datagram socket signals them, whose descriptor the application may hand to poll().
#pragma once

#include <cstdint>

#include "softhca/fabric/peer.h"
#include "softhca/fabric/process.h"

namespace softhca {

// The owner's end of one queue of events.
class EventQueue {
 public:
  // Binds the socket; valid() is false when that failed or all kMaxEventQueues are in use.
  explicit EventQueue(Process& process);
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;
  ~EventQueue();

  bool valid() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  uint32_t index() const { return index_; }

  // Takes the oldest event, waiting for one unless the descriptor has O_NONBLOCK. Returns false
  // with errno set (EAGAIN when there is none).
  bool next(SharedEvent* event);
  // Drops the events for which matches(event) is true. Returns how many.
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

// Appends an event to a queue of `owner` and signals its reader. Returns false when the queue is
// closed or full; it is full only when the application does not read it, and the event is lost.
bool post_event(const Process& process, const Peer& owner, uint32_t queue, SharedEvent event);

}  // namespace softhca
