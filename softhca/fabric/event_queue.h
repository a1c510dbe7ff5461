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

  // An invalid queue holds no entry of the table.
  bool valid() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  uint32_t index() const { return index_; }

  // Takes events until take(event) returns true, waiting for one unless the descriptor has
  // O_NONBLOCK. Returns false with errno set (EAGAIN when there is none). The queue is locked
  // during take(): an object that it finds is not destroyed before remove_if() for that object has
  // returned.
  template <class Take>
  bool next(Take take) {
    SharedEventQueue& queue = process_.arena().events(index_);
    while (receive_signal()) {
      SharedLock lock(queue.mutex);
      bool taken = false;
      while (!taken && queue.head != queue.tail)
        taken = take(queue.ring[queue.head++ % kMaxEvents]);
      signal_rest(queue);
      if (taken) return true;
    }
    return false;
  }
  // Drops the events for which matches(event) is true. The descriptor is not readable any more when
  // none is left. Returns how many it dropped.
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
    if (removed != 0 && queue.head == queue.tail) withdraw_signal(queue);
    return removed;
  }

 private:
  // Takes the entry `index_` into use. Returns the bound socket, -1 after a failure.
  int open();
  // Waits for a datagram, unless the descriptor has O_NONBLOCK. Returns false with errno set.
  bool receive_signal();
  // Both with queue.mutex held.
  void signal_rest(SharedEventQueue& queue);
  void withdraw_signal(SharedEventQueue& queue);

  Process& process_;
  uint32_t index_ = 0;
  int fd_ = -1;
};

// Appends an event to a queue of `owner` and signals its reader. Returns false when the queue is
// closed or full; it is full only when the application does not read it, and the event is lost.
bool post_event(const Process& process, const Peer& owner, uint32_t queue, SharedEvent event);

}  // namespace softhca
