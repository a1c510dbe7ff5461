#include "plugin/init_lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

namespace gdr::plugin {
namespace {

// Returns the exit status of a child that runs `body` and ends with its result.
template <class Body>
int status_of_child(const Body& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 1 : 0);
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(InitLock, ManyThreads_OneAtATime) {
  InitLock lock;
  int inside = 0, passed = 0;  // guarded by the lock
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 200; ++n) {
        ASSERT_TRUE(lock.lock());
        EXPECT_EQ(++inside, 1);
        ++passed;
        --inside;
        lock.unlock();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(passed, 1600);
}

TEST(InitLock, ForkedWhileItWasFree_ChildTakesIt) {
  InitLock lock;
  EXPECT_EQ(status_of_child([&] { return lock.lock(); }), 1);
}

TEST(InitLock, ForkedWhileAThreadHadIt_IsRefusedInTheChildForGood) {
  InitLock lock;
  ASSERT_TRUE(lock.lock());
  EXPECT_EQ(status_of_child([&] { return lock.lock() || lock.lock(); }), 0);
  lock.unlock();
  EXPECT_EQ(status_of_child([&] { return lock.lock(); }), 1);
}

}  // namespace
}  // namespace gdr::plugin
