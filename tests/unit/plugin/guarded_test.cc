#include "plugin/guarded.h"

#include <gmock/gmock.h>
#include <pthread.h>
#include <unistd.h>

#include <new>
#include <stdexcept>
#include <system_error>

#include "tests/fakes/recorded_log.h"

namespace gdr::plugin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <class Exception>
abi::ncclResult_t throwing(const Exception& exception) {
  return guarded("regMr", [&]() -> abi::ncclResult_t { throw exception; });
}

TEST(Guarded, BodyThatReturns_ItsResultIsPassedOn) {
  RecordedLog log;
  EXPECT_EQ(guarded("init", [] { return abi::ncclSuccess; }), abi::ncclSuccess);
  EXPECT_EQ(guarded("init", [] { return abi::ncclRemoteError; }), abi::ncclRemoteError);
  EXPECT_THAT(log.lines(), IsEmpty());
}

TEST(Guarded, NoMemory_IsASystemError) {
  RecordedLog log;
  EXPECT_EQ(throwing(std::bad_alloc()), abi::ncclSystemError);
  EXPECT_THAT(log.warnings(),
              ElementsAre(HasSubstr("regMr: out of memory. Fix: raise the memory limit")));
}

TEST(Guarded, NoThread_IsASystemErrorThatNamesTheLimit) {
  RecordedLog log;
  EXPECT_EQ(throwing(std::system_error(EAGAIN, std::generic_category(), "thread")),
            abi::ncclSystemError);
  EXPECT_THAT(log.warnings(), ElementsAre(HasSubstr("Fix: raise the limit of threads (ulimit -u")));
}

TEST(Guarded, OtherErrorOfTheSystem_HasItsTextAndNumber) {
  RecordedLog log;
  EXPECT_EQ(throwing(std::system_error(ENOENT, std::generic_category(), "random device")),
            abi::ncclSystemError);
  EXPECT_THAT(log.warnings(),
              ElementsAre(HasSubstr("regMr: random device: No such file or directory (error 2)")));
}

TEST(Guarded, AnyOtherException_IsAnInternalError) {
  RecordedLog log;
  EXPECT_EQ(throwing(std::logic_error("a bug")), abi::ncclInternalError);
  EXPECT_THAT(log.warnings(), ElementsAre(HasSubstr("regMr: unexpected exception: a bug")));
}

// The C library cancels a thread by an exception of its own and ends a process that swallows it.
TEST(Guarded, CancelledThread_IsLeftToTheCLibrary) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers do not follow the unwinding of a cancelled thread's stack";
#endif
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
