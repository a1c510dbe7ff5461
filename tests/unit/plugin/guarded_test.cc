#include "plugin/guarded.h"

#include <gmock/gmock.h>

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

}  // namespace
}  // namespace gdr::plugin
