#include "transport/recovery/recovery_text.h"

#include <gmock/gmock.h>

namespace gdr::transport {
namespace {

using testing::HasSubstr;
using wire::PairReason;

constexpr char kPath[] = "mlx5_0:1 <-> b mlx5_3:1";

size_t count_of(const std::string& part, const std::string& text) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

LostPair lost(PairCause cause, const std::string& path = kPath) {
  return {path, "a", "mlx5_0:1", "b mlx5_3:1", false, cause, {}};
}

RailLoss loss_of(PairCause cause) {
  static const char connection = 0;
  RailLoss loss;
  loss.port = "mlx5_0:1";
  loss.peer = "b mlx5_3:1";
  loss.cause = cause;
  loss.usable = {"mlx5_1:1 (standby)"};
  loss.connection = &connection;
  return loss;
}

std::string text_of(const std::vector<RailLoss>& losses) {
  RailLosses all;
  for (const RailLoss& loss : losses) all.add(loss);
  return all.text();
}

TEST(RecoveryTextTest, HintOfAStatusHasAFix_TheWarningHasOneFixAtItsEnd) {
  const std::string text = text_of({loss_of({PairReason::kCompletion, IBV_WC_RETRY_EXC_ERR})});
  EXPECT_THAT(text, HasSubstr("is lost: RETRY_EXC_ERR; 1 connection goes on over mlx5_1:1 "
                              "(standby). Likely cause: the peer did not answer within"));
  EXPECT_THAT(text, HasSubstr("It is used again when it returns. Fix: look at the peer's log"));
  EXPECT_EQ(count_of("Fix: ", text), 1u) << text;
}

TEST(RecoveryTextTest, EveryCause_TheWarningHasOneFixThatIsToBeDone) {
  for (int reason = 0; reason <= static_cast<int>(wire::kLastPairReason); ++reason) {
    for (int status = IBV_WC_SUCCESS; status <= IBV_WC_TM_RNDV_INCOMPLETE; ++status) {
      const PairCause cause{static_cast<PairReason>(reason), static_cast<ibv_wc_status>(status)};
      const std::string text = text_of({loss_of(cause)});
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
  const std::string text = text_of({last});
  EXPECT_THAT(text, HasSubstr("the port is down; no rail is usable for 1 connection, which will "
                              "wait 35 s at most for one to return while requests are outstanding, "
                              "and then fail. Likely cause: "));
  EXPECT_EQ(count_of("go on", text) + count_of("goes on", text), 0u) << text;
}

// The port of one's own is the cause of what the peers see.
TEST(RecoveryTextTest, SeveralCauses_TheMostLikelyToExplainTheOthersIsFirst) {
  RailLoss peers = loss_of({PairReason::kPeer});
  peers.peer_cause = {PairReason::kPortDown};
  const std::string text = text_of({loss_of({PairReason::kCompletion, IBV_WC_RETRY_EXC_ERR}), peers,
                                    loss_of({PairReason::kPortDown}), peers});
  EXPECT_THAT(text, HasSubstr("is lost: the port is down, the peer reports: the port is down, "
                              "RETRY_EXC_ERR; 1 connection"));
  EXPECT_THAT(text, HasSubstr("Likely cause: a cable"));
}

// Two HCAs that stand by for each other.
TEST(RecoveryTextTest, RailWasAlsoAStandby_BothAreCounted) {
  static const char other = 0;
  RailLoss standby = loss_of({PairReason::kPortDown});
  standby.stands_by = true;
  standby.usable = {"mlx5_1:1"};
  standby.connection = &other;
  EXPECT_THAT(text_of({standby}),
              HasSubstr("is lost: the port is down; it was the standby rail of 1 connection. "));
  const std::string text = text_of({standby, loss_of({PairReason::kPortDown})});
  EXPECT_THAT(text, HasSubstr("1 connection goes on over mlx5_1:1 (standby); it was the standby "
                              "rail of 1 connection. "));
}

TEST(RecoveryTextTest, SeveralAreLeft_EachIsNamed) {
  RailLoss loss = loss_of({PairReason::kPortDown});
  loss.usable = {"mlx5_1:1", "mlx5_2:1"};
  EXPECT_THAT(text_of({loss}), HasSubstr("over mlx5_1:1 + mlx5_2:1. "));
}

TEST(RecoveryTextTest, NoPairIsLeft_CausesAreInOrderAndWithoutFixesInBetween) {
  const std::string text =
      no_pair_is_left_text({lost({PairReason::kCompletion, IBV_WC_RETRY_EXC_ERR}),
                            lost({PairReason::kPortDown}, "mlx5_1:1 <-> b mlx5_4:1")},
                           {});
  EXPECT_THAT(text, HasSubstr("Likely causes, in order: (1) a cable"));
  EXPECT_THAT(text, HasSubstr("(2) the peer did not answer within"));
  EXPECT_EQ(count_of("Fix: ", text), 0u) << text;
}

TEST(RecoveryTextTest, WorkFailsOverEveryPath_NamesTheLastFailureAndItsCause) {
  const FailedWork work{.failures = 6, .failing_for = std::chrono::seconds(204)};
  const std::string text =
      work_fails_text("a chunk", work, lost({PairReason::kCompletion, IBV_WC_RETRY_EXC_ERR}));
  EXPECT_THAT(text, HasSubstr("a chunk has failed 6 times in 204 s, over every rail"));
  EXPECT_THAT(text, HasSubstr(std::string(kPath) + ": RETRY_EXC_ERR at a mlx5_0:1. Likely"));
  EXPECT_THAT(text, HasSubstr("(1) the peer did not answer within"));
  EXPECT_THAT(work_fails_text("a chunk", {}, lost({PairReason::kCompletion, IBV_WC_REM_OP_ERR})),
              HasSubstr("Likely causes, in order: (1) the peer's HCA could not complete"));
}

TEST(RecoveryTextTest, ProbeIsNotAnswered_TheFixIsToCompareMtus) {
  const PairCause timeout{PairReason::kProbe, IBV_WC_RETRY_EXC_ERR};
  EXPECT_THAT(no_pair_is_left_text({lost(timeout)}, {}),
              HasSubstr("(1) the peer's port cannot be reached, or large packets are dropped"));
  EXPECT_THAT(failed_return_text(timeout, {}), HasSubstr(". Fix: compare the MTU of all ports"));
  EXPECT_EQ(failed_return_text({PairReason::kAddress}, {}),
            "the address of the other end's port has changed");
  EXPECT_EQ(failed_return_text({PairReason::kPeer}, timeout),
            "the peer reports: " + failed_return_text(timeout, {}));
}

// Both ends log the text.
TEST(RecoveryTextTest, PeerHasTheCause_ItsHostIsNamedBesideThatOfTheOwnPort) {
  LostPair pair = lost({PairReason::kPeer});
  pair.peer_cause = {PairReason::kPortDown};
  const std::string text = no_pair_is_left_text({pair, lost({PairReason::kPortDown}, "other")}, {});
  EXPECT_THAT(text, HasSubstr(std::string(kPath) + ": the port is down at b mlx5_3:1; other: the " +
                              "port is down at a mlx5_0:1. Likely"));
  EXPECT_THAT(text, HasSubstr("look at b's `dmesg` and the switch's log (2)"));
  EXPECT_THAT(text, HasSubstr("look at a's `dmesg`"));
  EXPECT_EQ(count_of("the peer reports", text), 0u) << text;
  pair.port_down = true;
  const std::string both = no_pair_is_left_text({pair}, {});
  EXPECT_THAT(both, HasSubstr("the port is down at b mlx5_3:1, the port is down at a mlx5_0:1. "));
  EXPECT_THAT(both, HasSubstr("look at a's `dmesg`"));
  pair.cause = {PairReason::kCompletion, IBV_WC_RETRY_EXC_ERR}, pair.port_down = false;
  const std::string retries = no_pair_is_left_text({pair}, {});
  EXPECT_THAT(retries, HasSubstr("RETRY_EXC_ERR at a mlx5_0:1, the port is down at b mlx5_3:1. "));
  EXPECT_THAT(retries, HasSubstr("order: (1) a cable, a transceiver or a switch port has failed; "
                                 "look at b's `dmesg`"));
  pair.cause = {PairReason::kPortDown}, pair.peer_cause = {PairReason::kDeviceLost};
  EXPECT_THAT(no_pair_is_left_text({pair}, {}),
              HasSubstr("the port is down at a mlx5_0:1, the HCA reported a fatal error or was "
                        "removed at b mlx5_3:1. "));
}

TEST(RecoveryTextTest, CausesAtEitherEnd_TheFixNamesWhereToLook) {
  RailLoss loss = loss_of({PairReason::kPeer});
  loss.peer_cause = {PairReason::kPortDown};
  EXPECT_THAT(text_of({loss}), HasSubstr("Fix: look at b's `dmesg` and the switch's log"));
  EXPECT_THAT(text_of({loss_of({PairReason::kPortDown})}), HasSubstr("Fix: look at `dmesg` and"));
  EXPECT_THAT(text_of({loss_of({PairReason::kNotConnected})}),
              HasSubstr("Fix: see `is not connected` in the log of the end that could not connect "
                        "it (NCCL_DEBUG=INFO)"));
}

TEST(RecoveryTextTest, PathsHaveSeveralPairs_EachIsNamedOnceWithItsCauses) {
  const PairCause timeout{PairReason::kCompletion, IBV_WC_RETRY_EXC_ERR};
  const std::string text = no_pair_is_left_text(
      {lost(timeout), lost({PairReason::kPost}, "other"), lost({PairReason::kPost}), lost(timeout)},
      {});
  EXPECT_EQ(count_of(kPath, text), 1u) << text;
  EXPECT_THAT(text,
              HasSubstr(std::string(kPath) + ": RETRY_EXC_ERR at a mlx5_0:1, the HCA refused a " +
                        "work request at a mlx5_0:1; other: the HCA refused a work request " +
                        "at a mlx5_0:1. Likely"));
  EXPECT_EQ(count_of("the peer did not answer", text), 1u) << text;
}

}  // namespace
}  // namespace gdr::transport
