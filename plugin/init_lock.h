// The lock of init, which a forked child can recognise as its parent's.
#pragma once

#include <sys/types.h>

#include <atomic>

namespace gdr::plugin {

// Lets one thread of a process at a time into init.
//
// A child of fork(2) has one thread. What the parent's other threads had locked stays locked in it:
// this lock, and those inside the libraries that init calls (hwloc's components, rdma-core's list
// of devices). So a child that was forked while a thread was inside init cannot run init itself,
// and it is an error instead of a deadlock. With std::mutex both would look the same.
class InitLock {
 public:
  // Waits until no other thread of this process has the lock, and takes it. Returns false, without
  // the lock, in a process that was forked while a thread of another process had it.
  bool lock();
  void unlock();

 private:
  std::atomic<pid_t> owner_{0};  // the process that has it; 0: nobody
};

}  // namespace gdr::plugin
