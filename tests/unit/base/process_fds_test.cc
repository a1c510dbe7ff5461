#include "base/process_fds.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/unique_fd.h"

namespace gdr {
namespace {

int open_event() { return eventfd(0, EFD_CLOEXEC); }
bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

// Only of open_event(): the C library and sanitizers open files for a moment when threads start.
int open_events() {
  int count = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    char target[64] = "";
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    const ssize_t length = readlink(link.c_str(), target, sizeof(target));
    count += length > 0 && std::string_view(target, length) == "anon_inode:[eventfd]";
  }
  return count;
}

// Runs a check in a forked child, and returns its result.
bool in_child(const std::function<bool()>& check) {
  const pid_t child = fork();
  if (child == 0) _exit(check() ? 0 : 1);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(ProcessFds, Child_KeepsNoneButTheOthers) {
  UniqueFd own = UniqueFd::of_this_process(open_event);
  UniqueFd inherited(open_event());
  const int number = own.get();
  ASSERT_TRUE(is_open(number));
  EXPECT_TRUE(in_child([&] { return !is_open(number) && own.get() == -1 && !own.valid(); }));
  EXPECT_TRUE(in_child([&] { return inherited.valid() && is_open(inherited.get()); }));
  EXPECT_TRUE(is_open(number));
  EXPECT_EQ(own.get(), number);
  UniqueFd released(own.release());
  EXPECT_TRUE(in_child([&] { return is_open(released.get()); }));
}

TEST(ProcessFds, OpeningFails_HoldsNoneAndKeepsErrno) {
  UniqueFd none = UniqueFd::of_this_process([] { return open("/nonexistent/file", O_RDONLY); });
  EXPECT_EQ(errno, ENOENT);
  EXPECT_FALSE(none.valid());
}

TEST(ProcessFds, Moved_StillClosedInTheChildAndHereByItsOwner) {
  UniqueFd first = UniqueFd::of_this_process(open_event);
  const int number = first.get();
  UniqueFd second(std::move(first));
  UniqueFd third;
  third = std::move(second);
  EXPECT_FALSE(first.valid());
  EXPECT_TRUE(in_child([&] { return !is_open(number); }));
  EXPECT_EQ(third.get(), number);
  third.reset();
  EXPECT_FALSE(is_open(number));
}

// The number is another file's by then.
TEST(ProcessFds, ClosedBeforeTheFork_ChildClosesNothing) {
  UniqueFd own = UniqueFd::of_this_process(open_event);
  const int number = own.get();
  own.reset();
  UniqueFd inherited(open_event());
  ASSERT_EQ(inherited.get(), number);
  EXPECT_TRUE(in_child([&] { return is_open(number); }));
}

TEST(ProcessFds, ObjectDestroyedInTheChild_ClosesNoOtherFile) {
  UniqueFd own = UniqueFd::of_this_process(open_event);
  const int number = own.get();
  EXPECT_TRUE(in_child([&] {
    UniqueFd opened_here(open_event());
    if (opened_here.get() != number) return false;
    own.reset();
    return is_open(number);
  }));
}

TEST(ProcessFds, OpenedInTheChild_ItsOwnChildDoesNotKeepIt) {
  UniqueFd parents = UniqueFd::of_this_process(open_event);
  EXPECT_TRUE(in_child([&] {
    UniqueFd own = UniqueFd::of_this_process(open_event);
    const int number = own.get();
    return is_open(number) && in_child([&] { return !is_open(number); }) && own.valid();
  }));
}

TEST(ProcessFds, OtherThreadsOpenAndClose_ChildKeepsNone) {
  const int inherited = open_events();
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        UniqueFd first = UniqueFd::of_this_process(open_event);
        UniqueFd second = UniqueFd::of_this_process(open_event);
        first.reset();
      }
    });
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(in_child([&] { return open_events() == inherited; })) << i;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace gdr
