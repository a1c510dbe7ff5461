// What becomes of the chunks of a pair that is lost, at every moment of a message. The fuzz targets
// `rails` and `standby` show for any order of losses and returns that all data arrives once.
#include <optional>
#include <set>
#include <utility>

#include "tests/unit/transport/recording_observer.h"
#include "tests/unit/transport/spread_rails.h"
#include "transport/data/spread_sends.h"

namespace gdr::transport {
namespace {

TEST(LostPair, MessageArrivesAndOnlyWhatWasMissingIsSentAgain) {
  // How far pair 0, which carries four of the chunks, has come when it is lost.
  const struct {
    const char* name;
    int delivered;         // chunks
    bool polled = false;   // their acknowledgements have been seen
    bool arrives = false;  // so does the chunk whose acknowledgement is lost
  } moments[] = {{"nothing has arrived", 0},
                 {"some chunks have", 2},
                 {"some are acknowledged", 2, true},
                 {"an acknowledgement is lost", 2, false, true},
                 {"only the last acknowledgement is", 3, true, true}};
  for (const auto& moment : moments) {
    SCOPED_TRACE(moment.name);
    SpreadRails pair(2, 0);
    SpreadMessage message(pair, kTwoRailBytes);
    message.send_held();
    ASSERT_EQ(pair.chunks(0).size(), size_t{kTwoRailChunks} / 2);
    const uint32_t qp = qp_number(*pair.sender, 0);
    EXPECT_EQ(pair.verbs.deliver_on(qp, moment.delivered), moment.delivered);
    if (moment.polled) {
      EXPECT_FALSE(test_once(message.send).done);
    }
    pair.lose_after(0, 0, moment.arrives);
    ASSERT_TRUE(message.arrives());
    const int arrived = moment.delivered + (moment.arrives ? 1 : 0);
    EXPECT_EQ(pair.chunks().size(),
              static_cast<size_t>(kTwoRailChunks + kTwoRailChunks / 2 - arrived));
    EXPECT_EQ(pair.chunks(0).size(), size_t{kTwoRailChunks} / 2);
  }
}

struct SpreadRecoveryTest : testing::Test {
  // Sends a message, and returns whether both ends complete it with the right bytes.
  static bool transfers(SpreadRails& pair, size_t bytes) {
    SpreadMessage message(pair, bytes);
    const bool announced = wait_for([&] {
      if (message.receive == nullptr) message.receive = pair.irecv(message.to);
      return message.receive != nullptr;
    });
    const bool sent = announced && wait_for([&] {
                        EXPECT_FALSE(test_once(message.receive).done);  // NCCL polls both ends, too
                        return (message.send = pair.isend(message.from)) != nullptr;
                      });
    return sent && message.arrives();
  }
  static bool both_fail(const SpreadMessage& message) {
    return wait_for([&] {
      const bool informed = !test_once(message.receive).alive;
      return !test_once(message.send).alive && informed;
    });
  }
};

TEST_F(SpreadRecoveryTest, PostRefused_ChunksTakeTheOtherRail) {
  SpreadRails pair(2, 0);
  SpreadMessage message(pair, kTwoRailBytes);
  pair.verbs.fail_call(fake_verbs::Call::kPostSend, EIO, /*skip=*/3);
  message.send = pair.isend(message.from);
  ASSERT_TRUE(message.arrives());
  EXPECT_EQ(pair.chunks().size(), size_t{kTwoRailChunks});
}

TEST_F(SpreadRecoveryTest, SeparateEnds_AreSentAgainWithTheirData) {
  TransportOptions options = test_options();
  options.connection.adaptive_routing = true;
  SpreadRails pair(2, 0, options);
  SpreadMessage message(pair, kTwoRailBytes);
  message.send_held();
  pair.lose_after(0, 3);  // the second chunk's data has arrived, its end has not
  ASSERT_TRUE(message.arrives());
  EXPECT_EQ(pair.chunks().size(), static_cast<size_t>(kTwoRailChunks + 3));
}

// The probes by which the rails return come through.
TEST_F(SpreadRecoveryTest, LargeWritesAreLostOnAllRails_BothEndsFailAfterSomeTries) {
  constexpr size_t kPasses = wire::kProbeBytes;
  TransportOptions options = test_options();
  options.connection.ack_timeout = 1;
  SpreadRails pair(2, 0, options);
  SpreadMessage message(pair, 2 * kPasses);
  pair.verbs.fail_each(IBV_WC_RETRY_EXC_ERR, [](const fake_verbs::Transfer& transfer) {
    return transfer.bytes() > kPasses;
  });
  ASSERT_NE(message.send = pair.isend(message.from), nullptr);
  ASSERT_TRUE(both_fail(message));
  const Error error = failure_of(*pair.sender);
  EXPECT_EQ(error.code, Code::kRemote);
  EXPECT_TRUE(contains(error.text, "a chunk has failed 6 times")) << error.text;
  EXPECT_TRUE(contains(failure_of(*pair.receiver).text, "a probe of 4096 bytes"));
}

// As over rails that flap for an hour: what is lost is sent again, and then arrives.
TEST_F(SpreadRecoveryTest, ManyLossesButEachOfAnotherChunk_ConnectionGoesOn) {
  TransportOptions options = test_options();
  options.connection.ack_timeout = 1;
  SpreadRails pair(2, 0, options);
  bool fails = false;
  pair.verbs.fail_each(IBV_WC_RETRY_EXC_ERR, [&](const fake_verbs::Transfer& transfer) {
    return transfer.wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM && std::exchange(fails, false);
  });
  for (int i = 0; i < 7; ++i) {
    fails = true;
    ASSERT_TRUE(transfers(pair, 1000)) << i;
    EXPECT_FALSE(fails);
  }
}

// Both ends' QPs of the pair are destroyed, while the observer still knows chunks by them.
TEST_F(SpreadRecoveryTest, QueuePairsCannotBeStopped_MessageArrivesOverTheOtherRail) {
  RecordingObserver observer;
  SpreadRails pair(2, 0, observer.options());
  SpreadMessage message(pair, kTwoRailBytes);
  message.send_held_and_observed();
  pair.verbs.fail_call(fake_verbs::Call::kModifyToError, ETIMEDOUT, 0, /*times=*/1 << 20);
  pair.lose_after(0, 1);
  ASSERT_TRUE(message.arrives());
  EXPECT_EQ(observer.events.size(), size_t{kTwoRailChunks});
  EXPECT_TRUE(observer.each_completed_once());
  std::set<int> rails;
  for (const auto& event : observer.events) rails.insert(event.work.rail);
  EXPECT_EQ(rails.size(), 2u);
  EXPECT_EQ(pair.sender->connection().rails().pair(0).qp, nullptr);
  EXPECT_TRUE(transfers(pair, kTwoRailBytes));
}

TEST_F(SpreadRecoveryTest, FewerArrivedThanWereAcknowledged_DataWasLost) {
  SpreadRails pair(2, 0);
  SpreadMessage message(pair, kTwoRailBytes);
  message.send_held();
  EXPECT_EQ(pair.verbs.deliver_on(qp_number(*pair.sender, 0), 2), 2);
  EXPECT_FALSE(test_once(message.send).done);
  EXPECT_EQ(pair.verbs.drop_completions(qp_number(*pair.receiver, 0)), 2);
  pair.lose_after(0, 0);
  pair.verbs.release();
  EXPECT_TRUE(wait_for([&] {
    (void)test_once(message.receive);
    return !test_once(message.send).alive;
  }));
  const Error error = failure_of(*pair.sender);
  EXPECT_EQ(error.code, Code::kRemote);
  EXPECT_TRUE(contains(error.text, "data was lost in the receiver's HCA: it acknowledged 2 chunks"))
      << error.text;
}

// The sender takes the news before it polls. Nothing was reported as sent, so that all of it is
// sent again.
TEST_F(SpreadRecoveryTest, AcknowledgementsAreSeenAfterTheAgreement_AreIgnored) {
  SpreadRails pair(2, 0);
  SpreadMessage message(pair, kTwoRailBytes), next(pair, 8);
  message.send_held();
  EXPECT_EQ(pair.verbs.deliver_on(qp_number(*pair.sender, 0), 2), 2);
  EXPECT_EQ(pair.verbs.drop_completions(qp_number(*pair.receiver, 0)), 2);
  pair.verbs.break_qp(qp_number(*pair.receiver, 0));
  const Recovery& recovery = *pair.sender->connection().recovery();
  ASSERT_TRUE(wait_for([&] {
    return test_once(message.receive).alive && recovery.has_news() &&
           !contains(recovery.state_text(), "the ends have not agreed yet");
  }));
  EXPECT_EQ(pair.isend(next.from), nullptr) << "it takes the news; what was lost goes first";
  ASSERT_TRUE(message.arrives());
  next.send = pair.isend(next.from);
  EXPECT_TRUE(next.arrives());
}

// A receiver that has counted what was never sent.
TEST_F(SpreadRecoveryTest, PeerStatesMoreThanWasSent_BothEndsFail) {
  SpreadRails pair(2, 0);
  SpreadMessage message(pair, kTwoRailBytes);
  message.send_held();
  ASSERT_EQ(pair.chunks(0).size(), 4u);
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(pair.receiver->connection().recovery()->arrivals(0).count_one(0));
  }
  pair.verbs.break_qp(qp_number(*pair.receiver, 0));
  ASSERT_TRUE(both_fail(message));
  const Error error = failure_of(*pair.sender);
  EXPECT_EQ(error.code, Code::kInternal);
  EXPECT_TRUE(contains(error.text,
                       "the peer states that 5 chunks arrived over a queue pair, and "
                       "only 4 were sent"))
      << error.text;
  pair.verbs.release();
}

// Before the receiver announces its buffer once more, which the fabric holds back. A slot that is
// replaced is that of a later buffer.
TEST_F(SpreadRecoveryTest, PeerChangesASlotBeforeAllIsSent_NoChunkIsSentAgain) {
  using Change = void (*)(wire::ClearToSend&);
  const Change changes[] = {[](wire::ClearToSend& slot) { slot.bytes = 8; },
                            [](wire::ClearToSend& slot) { slot.sequence += wire::kSlots; }};
  for (const Change& change : changes) {
    SpreadRails pair(2, 0);
    SpreadMessage message(pair, kTwoRailBytes);
    message.send_held();
    const size_t posted = pair.chunks().size();
    change(tables_of(*pair.sender).ring[0]);
    pair.lose_after(0, 0);
    ASSERT_TRUE(wait_for([&] {
      (void)test_once(message.receive);
      return !test_once(message.send).alive;
    }));
    EXPECT_TRUE(
        contains(failure_of(*pair.sender).text, "clear-to-send was replaced or made smaller"))
        << failure_of(*pair.sender).text;
    EXPECT_EQ(pair.chunks().size(), posted);
    pair.verbs.release();
  }
}

// The rails are lost while the sender has nothing to do, and the watcher brings them back. Its
// first call after that is an isend, whose clear-to-send was there before the loss or came after
// it.
TEST_F(SpreadRecoveryTest, RailsReturnForAnIdleSender_ItsNextMessageArrives) {
  for (const bool announced_before : {false, true}) {
    SpreadRails pair(1, 1);
    pair.exchange({8});
    std::optional<SpreadMessage> message;
    if (announced_before) message.emplace(pair, 8);
    Recovery& there = pair.recovery_of(*pair.receiver);
    for (uint32_t i : {0u, 1u}) there.on_failed_post(i, 0);
    ASSERT_TRUE(wait_for([&] {
      (void)pair.receiver->progress();
      return there.counters(0).returns.load() + there.counters(1).returns.load() >= 1;
    })) << there.state_text();
    if (!announced_before) message.emplace(pair, 8);
    ASSERT_TRUE(wait_for([&] {
      if (message->receive == nullptr) message->receive = pair.irecv(message->to);
      (void)pair.receiver->progress();
      return message->receive != nullptr;
    }));
    ASSERT_TRUE(wait_for([&] {
      (void)pair.receiver->progress();
      return (message->send = pair.isend(message->from)) != nullptr;
    }));
    EXPECT_TRUE(message->arrives());
  }
}

// irecv() has no room then, so that nothing is outstanding at either end.
TEST_F(SpreadRecoveryTest, AllRailsAreLostBeforeTheNextReceive_FailsAtBothEnds) {
  TransportOptions options = test_options();
  options.connection.ack_timeout = 1;
  SpreadRails pair(1, 1, options);
  pair.exchange({8});
  for (int rail : {0, 1}) {
    for (char end : {'s', 'r'}) pair.verbs.port(pair.name(end, rail), 1).active = false;
  }
  Recovery& there = pair.recovery_of(*pair.receiver);
  for (uint32_t i : {0u, 1u}) there.on_failed_post(i, 0);
  ASSERT_TRUE(wait_for([&] {
    (void)pair.receiver->progress();
    return there.counters(0).losses.load() + there.counters(1).losses.load() == 2;
  }));
  Buffer to = pair.receiver_buffer(8), from = pair.sender_buffer(8);
  const ReceiveBuffer next = to.receive(8);
  Request *receive = nullptr, *send = nullptr;
  EXPECT_TRUE(wait_for([&] {
    (void)pair.receiver->irecv(Arrays(next).get(), &receive);
    (void)pair.sender->isend(from.data(), 8, 0, *from.memory, &send);
    return pair.receiver->connection().failed() && pair.sender->connection().failed();
  }));
}

}  // namespace
}  // namespace gdr::transport
