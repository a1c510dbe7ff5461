#include "transport/recovery/recovery_rules.h"

#include <gtest/gtest.h>

namespace gdr::transport {
namespace {

ConnectionOptions with_ack_timeout(uint8_t ack_timeout, uint8_t retry_count) {
  ConnectionOptions options;
  options.ack_timeout = ack_timeout;
  options.retry_count = retry_count;
  return options;
}

TEST(TimeWithoutPairs, AckTimeoutAndRetries_IsWhatAnHcaTakesToGiveUp) {
  using std::chrono::milliseconds;
  EXPECT_EQ(time_without_pairs({}), milliseconds(34359));
  EXPECT_EQ(time_without_pairs(with_ack_timeout(22, 1)), milliseconds(34359));
  EXPECT_EQ(time_without_pairs(with_ack_timeout(14, 7)), milliseconds(5000)) << "a pair may return";
  EXPECT_EQ(time_without_pairs(with_ack_timeout(0, 7)), milliseconds(34359)) << "it would not end";
}

TEST(FailsOverEveryPath, OftenAndForLong_EndsTheConnection) {
  using std::chrono::seconds;
  const auto ends = [](const FailedWork& work, size_t paths) {
    return fails_over_every_path(work, paths, {});
  };
  EXPECT_TRUE(ends({.failures = 6, .failing_for = seconds(35)}, 2));
  EXPECT_FALSE(ends({.failures = 6, .failing_for = seconds(35)}, 3)) << "each path counts once";
  EXPECT_FALSE(ends({.failures = 5, .failing_for = seconds(3600)}, 2));
  EXPECT_FALSE(ends({.failures = 100, .failing_for = seconds(30)}, 2))
      << "an HCA would still retry";
  EXPECT_FALSE(ends({}, 0));
}

}  // namespace
}  // namespace gdr::transport
