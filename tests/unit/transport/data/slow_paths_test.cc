#include "transport/data/slow_paths.h"

#include <gtest/gtest.h>

namespace gdr::transport {
namespace {

using namespace std::chrono_literals;

const SlowPaths::Time kStart = std::chrono::steady_clock::now();

TEST(SlowPaths, AttemptTookASecond_ThatPathAloneIsPausedForTen) {
  SlowPaths paths;
  paths.on_failure("a", kStart, 1s);
  EXPECT_TRUE(paths.is_paused("a", kStart + 9s, false));
  EXPECT_FALSE(paths.is_paused("a", kStart + 10s, false));
  EXPECT_FALSE(paths.is_paused("b", kStart, false));
}

TEST(SlowPaths, NoOtherPairIsUsable_ThePathIsPausedForAsLongAsTheAttemptTook) {
  SlowPaths paths;
  paths.on_failure("a", kStart, 2s);
  EXPECT_TRUE(paths.is_paused("a", kStart + 1s, true));
  EXPECT_FALSE(paths.is_paused("a", kStart + 2s, true));
}

TEST(SlowPaths, AttemptSucceeds_ItsPathIsNotPaused) {
  SlowPaths paths;
  paths.on_failure("a", kStart, 1s);
  paths.on_success("a");
  EXPECT_FALSE(paths.is_paused("a", kStart, false));
}

TEST(SlowPaths, AttemptFailedAtOnce_ItsPathIsNotPaused) {
  SlowPaths paths;
  paths.on_failure("a", kStart, 0s);
  EXPECT_FALSE(paths.is_paused("a", kStart, false));
}

TEST(SlowPaths, AnotherPathFailsLater_TheFirstOneStaysPaused) {
  SlowPaths paths;
  paths.on_failure("a", kStart, 1s);
  paths.on_failure("b", kStart + 5s, 1s);
  EXPECT_TRUE(paths.is_paused("a", kStart + 6s, false));
  EXPECT_TRUE(paths.is_paused("b", kStart + 6s, false));
}

}  // namespace
}  // namespace gdr::transport
