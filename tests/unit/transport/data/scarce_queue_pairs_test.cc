// HCAs that have no queue pair left, or none as deep as connections with standby rails ask for: no
// connection fails for a standby rail, or loses its own rail to one.
#include <gmock/gmock.h>

#include <thread>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/rails_pair.h"

namespace gdr::transport {
namespace {

// A connection over rail 0 that stands by on rail 1, and the ends of a later one over rail 1.
struct ScarceQueuePairs : testing::Test, RailsPair {
  ScarceQueuePairs() : RailsPair(1, 1) {}

  void limit(const std::string& hca, size_t qps) { verbs.config(hca).max_qps = qps; }
  Result<std::unique_ptr<SendComm>> create_later() {
    return SendComm::create({sender_rails.standby, {}}, shared(options.connection), watcher.get(),
                            {});
  }
  std::string state_of_sender() { return recovery_of(*sender).state_text(); }

  RecordedLog log;
};

TEST_F(ScarceQueuePairs, ActiveRailOfALaterConnection_StandbyPairGivesWay) {
  limit("fake_s1", 1);
  EXPECT_TRUE(create_later().has_value());
  EXPECT_THAT(log.warnings("Standby rails give way"), testing::SizeIs(1));
  exchange({8, 1 << 20});
  const std::string gone = "errno 12), not used again";
  EXPECT_TRUE(poll_until([&] {
    return contains(state_of_sender(), gone) && contains(recovery_of(*receiver).state_text(), gone);
  })) << state_of_sender();
}

TEST_F(ScarceQueuePairs, ReceiverLacksOne_ItsStandbyPairGivesWayForTheFlush) {
  limit("fake_r1", 2);
  const auto later = create_later().value();
  auto other = ReceiveComm::create({receiver_rails.standby, {}}, shared(options.connection),
                                   watcher.get(), end_of(*later));
  ASSERT_TRUE(other) << other.error().text;
  const Result<bool> connected = (*other)->connect(end_of(*later));
  EXPECT_TRUE(connected) << connected.error().text;
  EXPECT_TRUE(contains_all(recovery_of(*receiver).state_text(), {"fake_r1", "errno 12"}));
  exchange({8, 1 << 20});
}

// Its owner gives the pair up when it has taken the news of the loss.
TEST_F(ScarceQueuePairs, ConnectionIsBusy_IsWaitedFor) {
  limit("fake_s1", 1);
  Buffer from = sender_buffer(8);
  Buffer to = receiver_buffer(8);
  Request* receive = irecv(to);
  verbs.hold();
  Request* send = isend_soon(from);
  std::atomic<bool> created{false};
  std::thread later([&] {
    EXPECT_TRUE(create_later().has_value());
    created = true;
  });
  EXPECT_TRUE(poll_until([&] {
    verbs.deliver();
    return created.load();
  }));
  later.join();
  verbs.release();
  EXPECT_TRUE(finish_both(send, receive));
  EXPECT_EQ(from.bytes, to.bytes);
}

TEST_F(ScarceQueuePairs, StandbyPairCarriesData_IsKept) {
  lose_first_rail();
  limit("fake_s1", 1);
  EXPECT_FALSE(create_later().has_value());
  exchange({8, 1 << 20});
}

// What is lacking is not what standby pairs hold.
TEST_F(ScarceQueuePairs, HcaRefusesForAnotherReason_NothingGivesWay) {
  verbs.config("fake_s1").max_work_requests = 16;
  EXPECT_FALSE(create_later().has_value());
  EXPECT_FALSE(contains(state_of_sender(), "fake_s1")) << state_of_sender();
}

// The ends of a connection with a standby rail, of which an HCA has less than it asks for.
struct LeanConnections : testing::Test, RailsBed {
  LeanConnections() : RailsBed(1, 1) {}

  void make() {
    create_sender();
    create_receiver();
    connect();
    keep_links();
  }

  RecordedLog log;
};

// By the HCAs that have a limit: of the work requests of a queue pair, or of queue pairs. Then the
// rails of both ends, the depths of the first pair, and what the ends say of the second one.
TEST_F(LeanConnections, RailLacks_TheActivePairIsMadeAndOthersAreLeftOut) {
  const struct {
    std::vector<std::string> hcas;
    int work_requests;
    size_t qps;
    int rails, peer_rails;
    uint32_t sends, receives;
    std::string second;
  } cases[] = {
      {{"fake_s0"}, 200, 9, 1, 1, 127, 384, ""},
      {{"fake_r0"}, 300, 9, 2, 1, 255, 192, "errno 22), not used again"},
      {{"fake_r0"}, 16384, 2, 2, 2, 255, 384, ""},
      {{"fake_r1"}, 16384, 0, 2, 1, 255, 384, ""},
      {{"fake_s1", "fake_r1"}, 16384, 0, 1, 1, 255, 384, "errno 12), not used again"},
  };
  for (const auto& one : cases) {
    for (const std::string& hca : one.hcas) {
      verbs.config(hca).max_work_requests = one.work_requests;
      verbs.config(hca).max_qps = one.qps;
    }
    make();
    SCOPED_TRACE(one.hcas[0] + " " + std::to_string(one.work_requests));
    EXPECT_EQ(end_of(*sender).rails, one.rails);
    EXPECT_EQ(end_of(*receiver).rails, one.peer_rails);
    EXPECT_EQ(verbs.queue_pairs()[qp_number(*sender)].max_send_wr, one.sends);
    EXPECT_EQ(verbs.queue_pairs()[qp_number(*receiver)].max_recv_wr, one.receives);
    exchange({8, 1 << 20});
    const auto state = [&] {
      return recovery_of(*sender).state_text() + recovery_of(*receiver).state_text();
    };
    EXPECT_TRUE(poll_until([&] { return contains(state(), one.second); })) << state();
    EXPECT_THAT(log.warnings("could not reach each other"), testing::IsEmpty());
    sender.reset();
    receiver.reset();
    for (const std::string& hca : one.hcas) {
      verbs.config(hca).max_work_requests = 16384;
      verbs.config(hca).max_qps = 9;
    }
  }
}

}  // namespace
}  // namespace gdr::transport
