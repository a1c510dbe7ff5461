#include "softhca/fabric/event_queue.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>

namespace softhca {

namespace {

struct Address {
  sockaddr_un name = {};
  socklen_t bytes = 0;
};

// An abstract name (unix(7)): the kernel removes it when the owner is killed.
Address address_of(uint64_t instance, uint32_t queue, uint32_t generation) {
  Address address;
  address.name.sun_family = AF_UNIX;
  int length =
      snprintf(address.name.sun_path + 1, sizeof address.name.sun_path - 1, "softhca-%016llx-%u-%u",
               static_cast<unsigned long long>(instance), queue, generation);
  address.bytes =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(length));
  return address;
}

void signal(const Process& process, uint64_t instance, uint32_t queue, uint32_t generation) {
  Address address = address_of(instance, queue, generation);
  sendto(process.signal_socket(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL,
         reinterpret_cast<sockaddr*>(&address.name), address.bytes);
}

}  // namespace

EventQueue::EventQueue(Process& process) : process_(process) {
  int index = process.event_indices().take();
  if (index < 0) return;
  index_ = static_cast<uint32_t>(index);
  fd_ = open();
  if (fd_ < 0) process.event_indices().give(index_);
}

int EventQueue::open() {
  SharedEventQueue& queue = process_.arena().events(index_);
  if (!process_.arena().reserve(&queue, sizeof queue)) return -1;
  queue.mutex.init();
  queue.head = queue.tail = queue.signalled = 0;
  ++queue.generation;
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  Address address = address_of(process_.self().instance(), index_, queue.generation);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address.name), address.bytes) != 0) {
    close(fd);
    return -1;
  }
  queue.live.store(1, std::memory_order_release);
  return fd;
}

EventQueue::~EventQueue() {
  if (fd_ < 0) return;
  close(fd_);
  if (process_.orphaned()) return;
  process_.arena().events(index_).live.store(0);
  process_.event_indices().give(index_);
}

bool EventQueue::receive_signal() {
  char token;
  return recv(fd_, &token, 1, 0) >= 0;
}

void EventQueue::signal_rest(SharedEventQueue& queue) {
  queue.signalled = queue.head != queue.tail ? 1 : 0;
  if (queue.signalled != 0) {
    signal(process_, process_.self().instance(), index_, queue.generation);
  }
}

// A reader may have received the signal already; it will find the queue empty.
void EventQueue::withdraw_signal(SharedEventQueue& queue) {
  char token;
  static_cast<void>(recv(fd_, &token, 1, MSG_DONTWAIT));
  queue.signalled = 0;
}

bool post_event(const Process& process, const Peer& owner, uint32_t queue_index,
                SharedEvent event) {
  SharedEventQueue& queue = owner.arena().events(queue_index);
  if (queue.live.load(std::memory_order_acquire) == 0) return false;
  SharedLock lock(queue.mutex);
  if (queue.tail - queue.head >= kMaxEvents) return false;
  queue.ring[queue.tail % kMaxEvents] = event;
  ++queue.tail;
  if (queue.signalled == 0) {
    // Recorded afterwards: a process that is killed in between must not silence the queue.
    signal(process, owner.instance(), queue_index, queue.generation);
    queue.signalled = 1;
  }
  return true;
}

}  // namespace softhca
