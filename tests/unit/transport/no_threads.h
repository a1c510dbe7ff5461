// A process in which no thread can be started.
#pragma once

#include <gtest/gtest.h>
#include <pthread.h>

namespace gdr::transport {

// While it lives, the stack of a new thread is as large as the address space.
struct NoThreads {
  NoThreads() {
    pthread_attr_t endless;
    EXPECT_EQ(pthread_getattr_default_np(&before), 0);
    EXPECT_EQ(pthread_getattr_default_np(&endless), 0);
    EXPECT_EQ(pthread_attr_setstacksize(&endless, size_t{1} << 47), 0);
    EXPECT_EQ(pthread_setattr_default_np(&endless), 0);
  }
  ~NoThreads() { EXPECT_EQ(pthread_setattr_default_np(&before), 0); }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

  pthread_attr_t before;
};

}  // namespace gdr::transport
