#include "transport/link/episodes.h"

#include <gtest/gtest.h>

namespace gdr::transport {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

struct EpisodesTest : testing::Test {
  bool warns(const std::string& cause, int severity = 0) {
    return episodes.warn(cause, now, severity).has_value();
  }
  bool warns_for_good(const std::string& cause) {
    return episodes.warn(cause, now, 0, true, Episodes::kForGood).has_value();
  }

  Episodes episodes;
  Clock::time_point now = Clock::now();
};

TEST_F(EpisodesTest, CauseComesAgainAndAgain_OneWarningAMinuteCountsThoseLeftOut) {
  EXPECT_EQ(episodes.warn("a", now), 0);
  for (int i = 0; i < 59; ++i) EXPECT_FALSE(episodes.warn("a", now += seconds(1)));
  EXPECT_TRUE(warns("b")) << "each cause has its own";
  EXPECT_FALSE(episodes.warn("a", now, 0, /*counts=*/false));
  EXPECT_EQ(episodes.warn("a", now += seconds(1)), 59);
  EXPECT_EQ(episodes.warn("a", now += seconds(60)), 0);
}

TEST_F(EpisodesTest, ItGetsWorse_OneMoreWarning) {
  EXPECT_TRUE(warns("a"));
  EXPECT_TRUE(warns("a", 1));
  EXPECT_FALSE(warns("a", 1) || warns("a", 0));
  EXPECT_TRUE(warns("a", 2));
}

TEST_F(EpisodesTest, ForGood_OneWarning) {
  EXPECT_TRUE(warns_for_good("a"));
  for (int i = 0; i < 3; ++i) {
    now += hours(24);
    EXPECT_TRUE(warns("b")) << "others are forgotten";
    EXPECT_FALSE(warns_for_good("a"));
  }
}

}  // namespace
}  // namespace gdr::transport
