#include "transport/recovery/recovery_text.h"

#include <gmock/gmock.h>

namespace gdr::transport {
namespace {

using testing::HasSubstr;
using wire::PairReason;

size_t count_of(const std::string& part, const std::string& text) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

RailLoss loss_of(PairCause cause, const std::string& port = "mlx5_0:1") {
  RailLoss loss;
  loss.host = "a";
  loss.port = port;
  loss.peer = "b mlx5_3:1";
  loss.cause = cause;
  loss.usable = "mlx5_1:1 (standby)";
  return loss;
}

TEST(RecoveryTextTest, HintOfAStatusHasAFix_TheWarningHasOneFixAtItsEnd) {
  const std::string text = lost_rail_text(loss_of({PairReason::kCompletion, IBV_WC_RETRY_EXC_ERR}));
  EXPECT_THAT(text, HasSubstr("is lost: RETRY_EXC_ERR; connections go on over mlx5_1:1 (standby). "
                              "It is used again when it returns. Likely cause: the peer did not "
                              "answer within"));
  EXPECT_THAT(text, HasSubstr(". Fix: look at the peer's log"));
  EXPECT_EQ(count_of("Fix: ", text), 1u) << text;
}

TEST(RecoveryTextTest, EveryCause_TheWarningHasOneFixThatIsToBeDone) {
  for (int reason = 0; reason <= static_cast<int>(wire::kLastPairReason); ++reason) {
    for (int status = IBV_WC_SUCCESS; status <= IBV_WC_TM_RNDV_INCOMPLETE; ++status) {
      const PairCause cause{static_cast<PairReason>(reason), static_cast<ibv_wc_status>(status)};
      const std::string text = lost_rail_text(loss_of(cause));
      ASSERT_EQ(count_of("Fix: ", text), 1u) << text;
      EXPECT_THAT(text, testing::ContainsRegex("Fix: (look at|see|compare) "));
    }
  }
}

TEST(RecoveryTextTest, NoRailIsUsable_TheWarningSaysHowLongConnectionsWait) {
  RailLoss last = loss_of({PairReason::kPortDown});
  last.effect = LossEffect::kWaits;
  last.usable.clear();
  last.waits = std::chrono::milliseconds(34360);
  const std::string text = lost_rail_text(last);
  EXPECT_THAT(text, HasSubstr("the port is down; no rail is usable, so that connections wait 35 s "
                              "at most for one to return while requests are outstanding, and then "
                              "fail. It is used again"));
  EXPECT_EQ(count_of("go on", text), 0u) << text;
}

TEST(RecoveryTextTest, RailStoodBy_TheWarningSaysSo) {
  RailLoss standby = loss_of({PairReason::kPortDown});
  standby.effect = LossEffect::kStoodBy;
  EXPECT_THAT(
      lost_rail_text(standby, 2),
      HasSubstr("is lost: the port is down; it was a standby rail; it happened 2 more times "
                "since the last warning. It is used again when it returns. Likely"));
}

TEST(RecoveryTextTest, NoPairIsLeft_TheLikelyCauseIsThatWhichExplainsMost) {
  const RailLoss timeout = loss_of({PairReason::kCompletion, IBV_WC_RETRY_EXC_ERR});
  const std::string text =
      no_pair_is_left_text({timeout, loss_of({PairReason::kPortDown}, "mlx5_1:1"), timeout}, {});
  EXPECT_EQ(text,
            "no rail is left. mlx5_0:1 <-> b mlx5_3:1: RETRY_EXC_ERR at a mlx5_0:1; mlx5_1:1 <-> b "
            "mlx5_3:1: the port is down at a mlx5_1:1. Likely cause: a cable, a transceiver or a "
            "switch port has failed. Fix: look at `dmesg` and the switch's log");
}

TEST(RecoveryTextTest, WorkFailsOverEveryPath_NamesTheLastFailureAndItsCause) {
  const FailedWork work{.failures = 6, .failing_for = std::chrono::seconds(204)};
  const std::string text =
      work_fails_text("a chunk", work, loss_of({PairReason::kCompletion, IBV_WC_RETRY_EXC_ERR}));
  EXPECT_THAT(text, HasSubstr("a chunk has failed 6 times in 204 s, over every rail"));
  EXPECT_THAT(text, HasSubstr("mlx5_3:1: RETRY_EXC_ERR at a mlx5_0:1. Likely cause: the peer did "
                              "not answer within"));
  EXPECT_THAT(work_fails_text("a chunk", {}, loss_of({PairReason::kCompletion, IBV_WC_REM_OP_ERR})),
              HasSubstr("Likely cause: the peer's HCA could not complete"));
}

TEST(RecoveryTextTest, ProbeIsNotAnswered_TheFixIsToCompareMtus) {
  const PairCause timeout{PairReason::kProbe, IBV_WC_RETRY_EXC_ERR};
  EXPECT_THAT(no_pair_is_left_text({loss_of(timeout)}, {}),
              HasSubstr("cause: the peer's port cannot be reached, or large packets are dropped"));
  RailLoss failed = loss_of(timeout);
  EXPECT_THAT(failed_return_text(failed), HasSubstr(". Fix: compare the MTU of all ports"));
  failed.cause = {PairReason::kPeer};
  failed.peer_cause = timeout;
  EXPECT_EQ(failed_return_text(failed), "b reports: " + failed_return_text(loss_of(timeout)));
}

// Both ends log the text. The peer's cause counts where it explains this end's.
TEST(RecoveryTextTest, PeerHasTheCause_ItsPortIsNamed) {
  RailLoss loss = loss_of({PairReason::kPeer});
  loss.peer_cause = {PairReason::kPortDown};
  const std::string at_b = "the port is down at b mlx5_3:1. Likely cause: a cable";
  EXPECT_THAT(no_pair_is_left_text({loss}, {}), HasSubstr(at_b));
  EXPECT_THAT(lost_rail_text(loss), HasSubstr("is lost: b reports: the port is down; "));
  for (const ibv_wc_status status : {IBV_WC_RETRY_EXC_ERR, IBV_WC_WR_FLUSH_ERR}) {
    loss.cause = {PairReason::kCompletion, status};
    EXPECT_THAT(no_pair_is_left_text({loss}, {}), HasSubstr(at_b));
  }
  loss.cause = {PairReason::kPortDown};
  loss.peer_cause = {PairReason::kDeviceLost};
  EXPECT_THAT(no_pair_is_left_text({loss}, {}), HasSubstr("the port is down at a mlx5_0:1. "));
}

}  // namespace
}  // namespace gdr::transport
