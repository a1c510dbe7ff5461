// A thread that is cancelled inside of a table's call. Sanitizers do not follow the unwinding of
// its stack, so that only builds without them have this program.
#include <gmock/gmock.h>
#include <pthread.h>
#include <unistd.h>

#include "plugin/guarded.h"
#include "tests/fakes/recorded_log.h"

namespace gdr::plugin {
namespace {

using ::testing::IsEmpty;

// The C library cancels a thread by an exception of its own and ends a process that swallows it.
TEST(Guarded, CancelledThread_IsLeftToTheCLibrary) {
  RecordedLog log;
  pthread_t thread;
  auto wait_for_cancellation = [](void*) -> void* {
    (void)guarded("init", []() -> abi::ncclResult_t {
      for (;;) pause();
    });
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, nullptr, wait_for_cancellation, nullptr), 0);
  ASSERT_EQ(pthread_cancel(thread), 0);
  void* result = nullptr;
  ASSERT_EQ(pthread_join(thread, &result), 0);
  EXPECT_EQ(result, PTHREAD_CANCELED);
  EXPECT_THAT(log.lines(), IsEmpty());
}

}  // namespace
}  // namespace gdr::plugin
