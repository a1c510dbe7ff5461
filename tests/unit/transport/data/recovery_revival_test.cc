// When a pair that was lost is tried again, where the peer's address may not be resolved.
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/unit/transport/data/recovery_bed.h"

namespace gdr::transport {
namespace {

using namespace std::chrono_literals;
using fake_verbs::Call;
using Kind = PairNews::Kind;

struct RecoveryRevivalTest : RecoveringEnds {
  void lose(std::initializer_list<uint32_t> pairs) {
    for (uint32_t pair : pairs) bed.fail_pair(sender, pair);
    bed.run();
  }
  // As the kernel answers where nobody answers for the address.
  void fail_attempts(int count) { bed.verbs.fail_call(Call::kModifyToRtr, ETIMEDOUT, 0, count); }
  int attempts_to_fail() const { return bed.verbs.failures_left(Call::kModifyToRtr); }
  // Of the first pair that is lost.
  std::string lost_path() const {
    const std::string text = sender.recovery->state_text();  // ", lost: PATH (RETRY_EXC_ERR)"
    return text.substr(8, text.find(" (") - 8);
  }
};

// The connection would fail before the path counts as reachable again.
TEST_F(RecoveryRevivalTest, NoPairIsUsableAndNoPeerAnswers_BothEndsTryEverySecond) {
  lose({0, 1});
  fail_attempts(4 * 3);
  for (int second = 0; second < 3; ++second) {
    skip_pause();
    EXPECT_EQ(attempts_to_fail(), 4 * (2 - second));
    EXPECT_EQ(sender.qp(0)->state, IBV_QPS_INIT);
  }
  skip_pause();
  for (uint32_t pair : {0u, 1u}) {
    EXPECT_TRUE(sender.has_seen(Kind::kReturned, pair));
    EXPECT_TRUE(receiver.has_seen(Kind::kReturned, pair));
  }
}

TEST_F(RecoveryRevivalTest, AnotherPairIsUsable_TheAttemptIsSparedWhileThePathIsHeld) {
  lose({1});
  fail_attempts(2);  // one of each end
  skip_pause();
  EXPECT_EQ(attempts_to_fail(), 0);
  fail_attempts(1);
  for (int second = 0; second < 25; ++second) skip_pause();
  EXPECT_EQ(attempts_to_fail(), 1);
  for (int second = 0; second < 7; ++second) skip_pause();
  EXPECT_EQ(attempts_to_fail(), 0) << "the pause did not grow meanwhile";
  EXPECT_TRUE(sender.has_seen(Kind::kReturned, 1));
}

// Which it could do only since it has resolved this end's address.
TEST_F(RecoveryRevivalTest, PeerIsReadyAfterThisEndsAttemptFailed_ThisEndFollowsAtOnce) {
  lose({1});
  fail_attempts(1);
  skip_pause();
  EXPECT_EQ(attempts_to_fail(), 0);
  EXPECT_TRUE(sender.has_seen(Kind::kReturned, 1));
  EXPECT_TRUE(receiver.has_seen(Kind::kReturned, 1));
}

TEST_F(RecoveryRevivalTest, NoPairIsUsableAndThePathIsSlow_IsTriedAfterAsLongAsItTook) {
  lose({0, 1});
  bed.skip(500ms);
  bed.slow.on_failure(lost_path(), bed.now(), 1s);
  auto tick = [&](std::chrono::milliseconds later) {
    bed.skip(later);
    if (sender.recovery->on_tick(bed.now())) sender.recovery->revive_pairs(bed.now(), bed.slow);
  };
  tick(600ms);
  EXPECT_EQ(sender.qp(0)->state, IBV_QPS_ERR);
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_RTS);
  tick(1100ms);
  EXPECT_EQ(sender.qp(0)->state, IBV_QPS_RTS);
}

TEST_F(RecoveryRevivalTest, PeerIsReady_ASlowPathIsNotWaitedFor) {
  lose({1});
  bed.slow.on_failure(lost_path(), bed.now(), 1min);
  skip_pause();
  EXPECT_TRUE(sender.has_seen(Kind::kReturned, 1));
}

}  // namespace
}  // namespace gdr::transport
