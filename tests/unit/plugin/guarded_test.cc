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

TEST(Guarded, BodyThatReturns_ItsResultIsPassedOn) {
  RecordedLog log;
  EXPECT_EQ(guarded("init", [] { return abi::ncclSuccess; }), abi::ncclSuccess);
  EXPECT_EQ(guarded("init", [] { return abi::ncclRemoteError; }), abi::ncclRemoteError);
  EXPECT_THAT(log.lines(), IsEmpty());
}

TEST(Guarded, Exception_IsAnErrorWithAWarning) {
  struct Case {
    void (*body)();
    abi::ncclResult_t result;
    const char* warning;
  };
  for (const Case& one :
       {Case{[] { throw std::bad_alloc(); }, abi::ncclSystemError,
             "regMr: out of memory. Fix: raise the memory limit"},
        Case{[] { throw std::system_error(EAGAIN, std::generic_category(), "thread"); },
             abi::ncclSystemError, "Fix: raise the limit of threads (ulimit -u"},
        Case{[] { throw std::system_error(ENOENT, std::generic_category(), "random device"); },
             abi::ncclSystemError, "regMr: random device: No such file or directory (error 2)"},
        Case{[] { throw std::logic_error("a bug"); }, abi::ncclInternalError,
             "regMr: unexpected exception: a bug"}}) {
    RecordedLog log;
    const abi::ncclResult_t result = guarded("regMr", [&] {
      one.body();
      return abi::ncclSuccess;
    });
    EXPECT_EQ(result, one.result);
    EXPECT_THAT(log.warnings(), ElementsAre(HasSubstr(one.warning)));
  }
}

}  // namespace
}  // namespace gdr::plugin
