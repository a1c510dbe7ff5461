#include "transport/data/recovery_rules.h"

#include <gtest/gtest.h>

namespace gdr::transport {
namespace {

TEST(CheckArrived, BetweenAcknowledgedAndPosted_IsPossible) {
  for (uint64_t arrived : {3, 4, 5}) EXPECT_TRUE(check_arrived({3, 5}, arrived)) << arrived;
}

TEST(CheckArrived, LessThanAcknowledged_IsLostData) {
  Status status = check_arrived({3, 5}, 2);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kRemote);
  EXPECT_NE(status.error().text.find("acknowledged 3 chunks, and only 2 arrived"),
            std::string::npos);
}

TEST(CheckArrived, MoreThanPosted_IsAnErrorOfThePeer) {
  Status status = check_arrived({3, 5}, 6);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kInternal);
}

ConnectionOptions with_ack_timeout(uint8_t ack_timeout, uint8_t retry_count) {
  ConnectionOptions options;
  options.ack_timeout = ack_timeout;
  options.retry_count = retry_count;
  return options;
}

TEST(TimeWithoutPairs, Defaults_IsWhatAnHcaTakesToGiveUp) {
  EXPECT_EQ(time_without_pairs({}), std::chrono::milliseconds(34359));
  EXPECT_EQ(time_without_pairs(with_ack_timeout(22, 1)), std::chrono::milliseconds(34359));
}

TEST(TimeWithoutPairs, HcaGivesUpSoon_LeavesAPairTheTimeToReturn) {
  EXPECT_EQ(time_without_pairs(with_ack_timeout(14, 7)), std::chrono::seconds(5));
}

TEST(TimeWithoutPairs, HcaNeverGivesUp_HasAnEnd) {
  EXPECT_EQ(time_without_pairs(with_ack_timeout(0, 7)), time_without_pairs({}));
}

TEST(FailsOverEveryPath, OftenAndForLong_EndsTheConnection) {
  constexpr FailedWork kFailed{.failures = 6, .failing_for = std::chrono::seconds(35)};
  EXPECT_TRUE(fails_over_every_path(kFailed, 2, {}));
  EXPECT_FALSE(fails_over_every_path(kFailed, 3, {})) << "each path counts once";
}

TEST(FailsOverEveryPath, SeldomOrForAShortTime_DoesNot) {
  EXPECT_FALSE(fails_over_every_path({}, 0, {}));
  EXPECT_FALSE(fails_over_every_path({.failures = 5, .failing_for = std::chrono::hours(1)}, 2, {}));
  EXPECT_FALSE(
      fails_over_every_path({.failures = 100, .failing_for = std::chrono::seconds(30)}, 2, {}))
      << "an HCA would still retry";
}

TEST(AnnouncementLimit, AnnouncedAgain_HoldsBackTheNextUseOfTheSlotsUntilConfirmed) {
  AnnouncementLimit<2> limit(512);
  EXPECT_GT(limit.end(), uint64_t{1} << 60);
  limit.on_announced_again(1, 100);
  EXPECT_EQ(limit.end(), 612u);
  limit.on_announced_again(0, 90);
  EXPECT_EQ(limit.end(), 602u);
  limit.on_announced_again(0, 200);  // the write from 90 on may still be on its way
  limit.on_written(0);
  EXPECT_EQ(limit.end(), 602u);
  limit.on_written(0);
  EXPECT_EQ(limit.end(), 612u);
  limit.on_recovered(1);
  EXPECT_GT(limit.end(), uint64_t{1} << 60);
}

}  // namespace
}  // namespace gdr::transport
