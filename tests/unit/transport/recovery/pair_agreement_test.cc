#include "transport/recovery/pair_agreement.h"

#include <gtest/gtest.h>

#include <cstring>

namespace gdr::transport {
namespace {

using namespace std::chrono_literals;
using Time = PairAgreement::Time;

constexpr PairCause kRetryExceeded{wire::PairReason::kCompletion, IBV_WC_RETRY_EXC_ERR};

// Both ends of a pair, and a clock.
struct AgreeingEnds {
  PairAgreement sender{PairEnd::kSender, 3};
  PairAgreement receiver{PairEnd::kReceiver, 3};
  Time now{1h};

  // Both state what they have to state until neither has anything new.
  void exchange() {
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(receiver.on_statement(sender.make_statement(), now));
      ASSERT_TRUE(sender.on_statement(receiver.make_statement(), now));
    }
  }
  // The sender's QP fails, and is moved to ERROR.
  void stop_sender() {
    sender.on_failure(kRetryExceeded);
    sender.on_stopped(now);
  }
  // Moves both QPs to ERROR, with `arrived` immediates counted at the receiver.
  void take_down(uint64_t arrived) {
    stop_sender();
    exchange();
    receiver.on_stopped(now);
    receiver.on_counted(arrived, now);
    exchange();
  }
  void finish() {
    sender.on_data_path_done();
    receiver.on_data_path_done();
  }
  void revive() {
    now += 1min;
    finish();
    sender.on_revived();
    receiver.on_revived();
    exchange();
  }
  void probe() {
    for (PairAgreement* end : {&sender, &receiver}) {
      end->returns().on_probe_posted();
      end->on_probe_completed(IBV_WC_SUCCESS, now);
      end->returns().on_peer_probed();
    }
  }
};

// Both are down, and have nothing left to do for what was lost.
struct DownEnds : AgreeingEnds {
  DownEnds() {
    take_down(17);
    finish();
  }
};

TEST(PairAgreement, Sender_StatesThatItIsDown_OnlyWithItsQueuePairInError) {
  AgreeingEnds ends;
  ends.sender.on_failure(kRetryExceeded);
  ends.sender.on_failure({wire::PairReason::kPortDown});  // the first cause is kept
  EXPECT_FALSE(ends.sender.usable());
  EXPECT_TRUE(ends.sender.lost());
  EXPECT_EQ(ends.sender.next(ends.now), PairAction::kStop);
  EXPECT_EQ(ends.sender.make_statement().step, 0u);
  ends.sender.on_stopped(ends.now);
  EXPECT_EQ(ends.sender.next(ends.now), PairAction::kNone);
  EXPECT_TRUE(ends.sender.statement_due() && ends.sender.unseen());
  const wire::PairStatement stated = ends.sender.make_statement();
  EXPECT_EQ(stated.step, 1u);
  EXPECT_EQ(stated.pair, 3);
  EXPECT_EQ(stated.asks, 1);
  EXPECT_EQ(stated.reason, wire::PairReason::kCompletion);
  EXPECT_EQ(stated.status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_TRUE(wire::is_known(stated));
}

TEST(PairAgreement, Receiver_StatesThatItIsDown_OnlyOnceAllArrivalsAreCounted) {
  AgreeingEnds ends;
  ends.receiver.on_failure({wire::PairReason::kPortDown});
  ends.receiver.on_counted(16, ends.now);  // before the QP is in ERROR, so that it is not final
  ends.receiver.on_stopped(ends.now);
  EXPECT_EQ(ends.receiver.step(), 0u);
  ends.receiver.on_counted(17, ends.now);
  EXPECT_EQ(ends.receiver.step(), 1u);
  EXPECT_EQ(ends.receiver.make_statement().arrived, 17u);
}

TEST(PairAgreement, Revival_WaitsForTheOtherEndTheDataPathThePortAndThePause) {
  AgreeingEnds ends;
  ends.stop_sender();
  PairAgreement& sender = ends.sender;
  sender.on_data_path_done();  // nothing to be done yet: not agreed
  EXPECT_EQ(sender.next(ends.now + 1h), PairAction::kNone);
  ends.take_down(17);
  EXPECT_EQ(sender.next(ends.now + 1h), PairAction::kNone);
  sender.on_data_path_done();
  EXPECT_EQ(sender.next(ends.now), PairAction::kNone);
  EXPECT_EQ(sender.deadline(), ends.now + 1s);
  EXPECT_EQ(sender.next(ends.now + 1s), PairAction::kRevive);
  sender.returns().set_port_active(false);
  EXPECT_EQ(sender.next(ends.now + 1s), PairAction::kNone);
  EXPECT_EQ(sender.deadline(), Time::max());
  sender.returns().set_port_active(true);
  sender.on_revived();
  EXPECT_EQ(sender.step(), 2u);
  EXPECT_FALSE(sender.usable() || sender.lost() || sender.recovered());
  EXPECT_EQ(sender.epoch(), 1u);
}

TEST(PairAgreement, RevivalFails_WaitsEvenWhereTheOtherEndIsReady) {
  DownEnds ends;
  ends.sender.on_revived();
  ends.exchange();
  ends.receiver.returns().on_failed(ends.now);
  EXPECT_EQ(ends.receiver.next(ends.now), PairAction::kNone);
  EXPECT_EQ(ends.receiver.deadline(), ends.now + 2s);
  EXPECT_EQ(ends.receiver.next(ends.now + 2s), PairAction::kRevive);
}

TEST(PairAgreement, RevivalFailsWhileNoPairIsUsable_ThePauseIsNotLonger) {
  DownEnds ends;
  PairReturn& returns = ends.sender.returns();
  returns.on_failed(ends.now);
  returns.set_urgent(true);
  returns.on_failed(ends.now);
  EXPECT_EQ(ends.sender.deadline(), ends.now + 1s);
  returns.set_urgent(false);
  EXPECT_EQ(ends.sender.deadline(), ends.now + 2s);
}

TEST(PairAgreement, AfterRevival_IsUsableOnlyOnceItsProbeHasCompletedAndThePeersHasArrived) {
  DownEnds ends;
  ends.sender.on_revived();
  EXPECT_EQ(ends.sender.next(ends.now), PairAction::kNone);  // the other end is still down
  EXPECT_FALSE(ends.sender.awaits_probe());
  EXPECT_EQ(ends.receiver.next(ends.now), PairAction::kNone);
  ends.exchange();
  EXPECT_EQ(ends.receiver.next(ends.now), PairAction::kRevive) << "at once";
  ends.receiver.on_revived();
  ends.exchange();
  for (PairAgreement* end : {&ends.sender, &ends.receiver}) {
    EXPECT_TRUE(end->awaits_probe());
    EXPECT_TRUE(end->carries_statements());
    EXPECT_EQ(end->next(ends.now), PairAction::kProbe);
    end->returns().on_probe_posted();
    EXPECT_EQ(end->next(ends.now), PairAction::kNone);
    EXPECT_FALSE(end->usable());
    end->on_probe_completed(IBV_WC_SUCCESS, ends.now);
    EXPECT_TRUE(end->awaits_probe() && end->returns().own_probe_done());
    end->returns().on_peer_probed();
    EXPECT_TRUE(end->usable());
    EXPECT_FALSE(end->awaits_probe());
  }
}

TEST(PairAgreement, Pause_DoublesUntilThePairWasStable) {
  AgreeingEnds ends;
  auto pause = [&] {
    ends.take_down(0);
    ends.finish();
    const auto wait = ends.sender.deadline() - ends.now;
    ends.revive();
    ends.probe();
    return wait;
  };
  for (const auto expected : {1s, 2s, 4s, 8s, 16s, 32s, 64s, 128s, 256s, 512s, 600s, 600s}) {
    EXPECT_EQ(pause(), expected);
  }
  ends.now += 299s;  // HCAs may retry for so long
  EXPECT_EQ(pause(), 600s);
  ends.now += 300s;
  EXPECT_EQ(pause(), 1s);
}

TEST(PairAgreement, AttemptsFail_ThePauseGrowsToAMinute) {
  DownEnds ends;
  const auto pause = [&] { return ends.sender.deadline() - ends.now; };
  for (const auto expected : {1s, 2s, 4s, 8s, 16s, 32s, 60s, 60s}) {
    EXPECT_EQ(pause(), expected);
    ends.sender.returns().on_failed(ends.now);
  }
}

TEST(PairAgreement, NoPairIsUsable_ItReturnsAfterTheFirstPause) {
  AgreeingEnds ends;
  for (int i = 0; i < 9; ++i) {
    ends.take_down(0);
    ends.finish();
    ends.revive();
    ends.probe();
  }
  ends.take_down(0);
  ends.finish();
  EXPECT_EQ(ends.sender.deadline(), ends.now + 512s);
  ends.sender.returns().set_urgent(true);
  EXPECT_EQ(ends.sender.deadline(), ends.now + 1s);
}

wire::PortAddress with_lid(uint16_t lid) {
  wire::PortAddress address{};
  address.lid = lid;
  return address;
}

// Whichever end is the first to be ready again.
TEST(PairAgreement, PeersAddressHasChanged_AnEndThatConnectedToTheFormerOneLosesThePair) {
  const wire::PortAddress old = with_lid(5), present = with_lid(77);
  for (const bool knows_in_time : {false, true}) {
    DownEnds ends;
    ends.sender.on_connected(present, old);
    ends.sender.on_revived();
    if (knows_in_time) ends.exchange();
    ends.receiver.on_connected(old, knows_in_time ? ends.receiver.peer_address() : old);
    ends.receiver.on_revived();
    EXPECT_EQ(ends.receiver.peer_address(), knows_in_time ? present : wire::PortAddress{});
    ends.exchange();
    EXPECT_EQ(ends.receiver.lost(), !knows_in_time);
    if (knows_in_time) continue;
    EXPECT_EQ(ends.receiver.cause().reason, wire::PairReason::kAddress);
    EXPECT_EQ(ends.receiver.peer_address(), present);
  }
}

// It came while this end was being connected.
TEST(PairAgreement, PeersNewAddressIsKnownBeforeThisEndIsReady_ThePairIsLostAtOnce) {
  DownEnds ends;
  ends.sender.on_connected(with_lid(77), {});
  ends.sender.on_revived();
  ends.exchange();
  ends.receiver.on_connected({}, with_lid(5));
  ends.receiver.on_revived();
  EXPECT_EQ(ends.receiver.next(ends.now), PairAction::kStop);
  EXPECT_EQ(ends.receiver.cause().reason, wire::PairReason::kAddress);
}

TEST(PairAgreement, OldOrRepeatedStatement_ChangesNothing) {
  AgreeingEnds ends;
  const wire::PairStatement first = ends.sender.make_statement();
  ends.take_down(17);
  const wire::PairStatement down = ends.receiver.make_statement();
  ends.revive();
  ASSERT_TRUE(ends.receiver.on_statement(first, ends.now));
  ASSERT_TRUE(ends.sender.on_statement(down, ends.now));
  ASSERT_TRUE(ends.sender.on_statement(down, ends.now));
  EXPECT_EQ(ends.receiver.peer().step, 2u);
  EXPECT_EQ(ends.sender.peer().step, 2u);
}

TEST(PairAgreement, StatementThatAsks_IsAnsweredOnceForEachRepetition) {
  AgreeingEnds ends;
  ends.stop_sender();
  for (int repetition = 0; repetition < 3; ++repetition) {
    const wire::PairStatement asks = ends.sender.make_statement();
    EXPECT_TRUE(ends.sender.unseen());
    ASSERT_TRUE(ends.receiver.on_statement(asks, ends.now));
    EXPECT_TRUE(ends.receiver.statement_due());
    const wire::PairStatement lost_answer = ends.receiver.make_statement();
    EXPECT_EQ(lost_answer.seen, 1u);
    ASSERT_TRUE(ends.receiver.on_statement(asks, ends.now));  // over a second carrier
    EXPECT_FALSE(ends.receiver.statement_due());
  }
  ASSERT_TRUE(ends.sender.on_statement(ends.receiver.make_statement(), ends.now));
  EXPECT_FALSE(ends.sender.statement_due());
}

// The other end may not be called, and the pair that carries its statements may be dead.
TEST(PairAgreement, OtherEndKnowsAndDoesNotFollow_IsAskedUntilItDoes) {
  AgreeingEnds ends;
  ends.sender.on_failure(kRetryExceeded);
  EXPECT_FALSE(ends.sender.carries_statements());
  ends.sender.on_stopped(ends.now);
  ends.exchange();
  EXPECT_TRUE(ends.sender.unseen());
  EXPECT_EQ(ends.sender.make_statement().asks, 1);
  ends.receiver.on_stopped(ends.now);
  ends.receiver.on_counted(0, ends.now);
  EXPECT_TRUE(ends.receiver.unseen());  // does not know that the sender has seen it
  ends.exchange();
  EXPECT_FALSE(ends.sender.unseen() || ends.receiver.unseen());
}

// A statement of the receiver to a sender that is at step 1 and has seen step 0.
wire::PairStatement with(void (*change)(wire::PairStatement&)) {
  wire::PairStatement statement{};
  statement.serial_first = statement.serial_last = 7;
  statement.pair = 3;
  statement.step = 1;
  statement.seen = 1;
  statement.arrived = 17;
  change(statement);
  return statement;
}

TEST(PairAgreement, StatementThatContradictsTheProtocolOrAnEarlierOne_IsAnError) {
  const struct {
    bool after_another;
    wire::PairStatement statement;
  } cases[] = {
      {false, with([](wire::PairStatement& statement) { statement.step = 3; })},
      {false, with([](wire::PairStatement& statement) { statement.seen = 2; })},
      {false, with([](wire::PairStatement& statement) { statement.step = 2, statement.seen = 0; })},
      {false, with([](wire::PairStatement& statement) { statement.step = 0; })},  // with arrivals
      {true, with([](wire::PairStatement& statement) { statement.arrived = 18; })},
      {true,
       with([](wire::PairStatement& statement) { statement.step = 2, statement.arrived = 16; })},
      {true,
       with([](wire::PairStatement& statement) { statement.step = 0, statement.arrived = 0; })},
      {true, with([](wire::PairStatement& statement) { statement.seen = 0; })},
  };
  for (auto [after_another, statement] : cases) {
    AgreeingEnds ends;
    ends.stop_sender();
    if (after_another) {
      ASSERT_TRUE(ends.sender.on_statement(with([](wire::PairStatement&) {}), ends.now));
      statement.serial_first = statement.serial_last = 8;
    }
    const uint32_t before = ends.sender.peer().step;
    const Status status = ends.sender.on_statement(statement, ends.now);
    ASSERT_FALSE(status) << statement.step << " " << statement.seen;
    EXPECT_EQ(status.error().code, Code::kInternal);
    EXPECT_EQ(ends.sender.peer().step, before);
  }
}

TEST(PairAgreement, SenderThatStatesArrivals_IsAnError) {
  AgreeingEnds ends;
  wire::PairStatement statement = with([](wire::PairStatement& change) { change.seen = 0; });
  Status status = ends.receiver.on_statement(statement, ends.now);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().text,
            "the peer's statement about queue pair 3 contradicts the protocol of recovery: step 1, "
            "seen 0, arrived 17, after step 0, seen 0, arrived 0, to an end at step 0");
  statement.arrived = 0;
  EXPECT_TRUE(ends.receiver.on_statement(statement, ends.now));
}

TEST(ReadStatement, EntryThatIsNotWhole_IsReadLater) {
  wire::PairStatement entry{};
  EXPECT_FALSE(read_statement(entry).has_value());
  entry = with([](wire::PairStatement&) {});
  auto statement = read_statement(entry);
  ASSERT_TRUE(statement.has_value());
  EXPECT_EQ(std::memcmp(&*statement, &entry, sizeof(entry)), 0);
  entry.serial_first = 8;  // the write of the next one has begun
  EXPECT_FALSE(read_statement(entry).has_value());
}

}  // namespace
}  // namespace gdr::transport
