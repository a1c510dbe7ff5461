#include "transport/recovery/recovery_rules.h"

#include <gtest/gtest.h>

#include <utility>

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

TEST(AnnouncementRules, AnnouncedAgain_HoldsBackTheNextUseOfTheSlotsUntilConfirmed) {
  AnnouncementRules<2, 512> rules(512);
  EXPECT_GT(rules.end(), uint64_t{1} << 60);
  rules.on_announced_again(1, {100, 300});
  EXPECT_EQ(rules.end(), 612u);
  rules.on_announced_again(0, {90, 300});
  EXPECT_EQ(rules.end(), 602u);
  EXPECT_TRUE(rules.awaits_confirmation(0));
  rules.on_written(0);
  EXPECT_EQ(rules.end(), 612u);
  EXPECT_FALSE(rules.awaits_confirmation(0));
  rules.on_recovered(1);
  EXPECT_GT(rules.end(), uint64_t{1} << 60);
}

// Buffers 0 to 9 over pair 0, to 19 over pair 1, to 29 over pair 0.
TEST(AnnouncementRules, PairIsLost_OnlyWhatWasAnnouncedOverItLastMayBeLost) {
  using Buffers = std::pair<uint64_t, uint64_t>;
  AnnouncementRules<3, 32> rules(32);
  const auto lost = [&rules](uint64_t first, uint64_t end) {
    const auto found = rules.first_lost({first, end});
    return Buffers(found.first, found.end);
  };
  rules.record(0, 10);
  rules.record(1, 20);
  rules.record(0, 30);
  EXPECT_EQ(lost(0, 30), Buffers(30, 30)) << "no pair is lost";
  rules.on_recovered(2);
  EXPECT_EQ(lost(0, 30), Buffers(30, 30)) << "it announced nothing";
  rules.on_recovered(0);
  EXPECT_EQ(lost(4, 30), Buffers(4, 10)) << "those before are complete";
  EXPECT_EQ(lost(10, 30), Buffers(20, 30));
  rules.on_announced_again(1, {4, 10});
  EXPECT_EQ(lost(4, 30), Buffers(20, 30));
  rules.on_announced_again(2, {20, 30});
  rules.on_recovered(1);
  EXPECT_EQ(lost(4, 30), Buffers(4, 20)) << "announced first, or again, over pair 1";
  rules.record(2, 45);  // the ring has come round
  EXPECT_EQ(lost(13, 45), Buffers(13, 20));
  rules.record(2, 500);
  EXPECT_EQ(lost(468, 500), Buffers(500, 500));
}

}  // namespace
}  // namespace gdr::transport
