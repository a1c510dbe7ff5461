#include "transport/recovery/slow_paths.h"

#include <gtest/gtest.h>

namespace gdr::transport {
namespace {

using namespace std::chrono_literals;

const SlowPaths::Time kStart = std::chrono::steady_clock::now();

TEST(SlowPaths, AttemptTookASecond_ThatPathAloneIsPausedForTenUntilOneSucceeds) {
  SlowPaths paths;
  paths.on_failure("a", kStart, 1s);
  paths.on_failure("b", kStart + 5s, 1s);
  EXPECT_TRUE(paths.is_paused("a", kStart + 9s, false));
  EXPECT_FALSE(paths.is_paused("a", kStart + 10s, false));
  EXPECT_TRUE(paths.is_paused("b", kStart + 10s, false));
  EXPECT_FALSE(paths.is_paused("c", kStart + 5s, false));
  paths.on_success("b");
  EXPECT_FALSE(paths.is_paused("b", kStart + 10s, false));
}

TEST(SlowPaths, AttemptFailedAtOnceOrNoOtherPairIsUsable_ThePathIsPausedForAsLongAsItTook) {
  SlowPaths paths;
  paths.on_failure("a", kStart, 0s);
  EXPECT_FALSE(paths.is_paused("a", kStart, false));
  paths.on_failure("a", kStart, 2s);
  EXPECT_TRUE(paths.is_paused("a", kStart + 1s, true));
  EXPECT_FALSE(paths.is_paused("a", kStart + 2s, true));
}

}  // namespace
}  // namespace gdr::transport
