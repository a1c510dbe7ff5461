// A mutex in memory shared between processes. It is robust (pthread_mutexattr_setrobust): when its
// owner was killed, the next process that locks it gets it. What such mutexes guard is written so
// that an unfinished change is harmless.
#pragma once

#include <pthread.h>

#include <cerrno>
#include <mutex>

namespace softhca {

class SharedMutex {
 public:
  void init() {
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&mutex_, &attr);
    pthread_mutexattr_destroy(&attr);
  }

  void lock() {
    if (pthread_mutex_lock(&mutex_) == EOWNERDEAD) pthread_mutex_consistent(&mutex_);
  }

  void unlock() { pthread_mutex_unlock(&mutex_); }

 private:
  pthread_mutex_t mutex_;
};

using SharedLock = std::unique_lock<SharedMutex>;

}  // namespace softhca
