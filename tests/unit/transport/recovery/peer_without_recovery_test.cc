// Connections with a peer whose GDR_NCCL_FAILOVER is 0: a standby rail is of no use to them, and
// must do them no harm.
#include <gmock/gmock.h>

#include <algorithm>
#include <cerrno>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/rails_pair.h"

namespace gdr::transport {
namespace {

using fake_verbs::Call;
using fake_verbs::HcaConfig;

// Each end has an active rail and a standby rail.
struct PeerWithoutRecovery : testing::Test, RailsBed {
  PeerWithoutRecovery() : RailsBed(1, 1) {}

  // recovers: whether that end would.
  void make(bool sender_recovers, bool receiver_recovers) {
    options.connection.failover = sender_recovers;
    create_sender(receiver_recovers ? ListenerRails{1, 1} : ListenerRails{});
    options.connection.failover = receiver_recovers;
    create_receiver();
  }
  void make_and_connect(bool sender_recovers, bool receiver_recovers) {
    make(sender_recovers, receiver_recovers);
    connect();
    keep_links();
  }

  RecordedLog log;
};

TEST_F(PeerWithoutRecovery, StandbyPair_IsNeitherConnectedNorKept) {
  make(/*sender_recovers=*/true, /*receiver_recovers=*/false);
  ASSERT_EQ(end_of(*sender).qps, 2);
  verbs.fail_call(Call::kModifyToRtr, EINVAL, /*skip=*/3);  // of the pair, its flush, again
  connect();
  EXPECT_EQ(sender->connection().rails().pair(1).qp->state, IBV_QPS_INIT);
  EXPECT_EQ(receiver->connection().rails().pair(1).qp->state, IBV_QPS_INIT);
  const int before = verbs.live().qps;
  keep_links();
  EXPECT_EQ(verbs.live().qps, before - 2);
  exchange({4096});
  EXPECT_THAT(log.warnings(), testing::IsEmpty());
}

TEST_F(PeerWithoutRecovery, StandbyRailsDoNotFit_ConnectionIsMade) {
  sender_rails.standby = {open(verbs.add_hca(HcaConfig::roce("fake_e", 5)))};
  make_and_connect(/*sender_recovers=*/true, /*receiver_recovers=*/false);
  exchange({4096});
}

TEST_F(PeerWithoutRecovery, ConnectionOfOneActiveRail_GoesWithoutTheStandbyRail) {
  for (const bool at_sender : {false, true}) {
    log.clear();
    make_and_connect(/*sender_recovers=*/!at_sender, /*receiver_recovers=*/at_sender);
    verbs.fail_call(Call::kRegMr, ENOMEM, /*skip=*/2);  // once at each end
    sender_buffer(4096);
    receiver_buffer(4096);
    EXPECT_EQ(verbs.failures_left(Call::kRegMr), 1);
    verbs.fail_call(Call::kRegMr, 0, 0, /*times=*/0);
    for (Connection* connection : {&sender->connection(), &receiver->connection()}) {
      EXPECT_FALSE(connection->recovery()->recovers());
      EXPECT_FALSE(contains(connection->text(), "fake_s1"));
      EXPECT_EQ(connection->registration_scope().rails.size(), 1u);
    }
    exchange({4096});
    for (const char* hca : {"fake_s1", "fake_r1"}) {
      verbs.raise_event(hca, IBV_EVENT_DEVICE_FATAL, nullptr);
      EXPECT_TRUE(wait_for([&] { return !log.lines(hca).empty(); }));
    }
    exchange({4096});
    EXPECT_FALSE(sender->connection().failed() || receiver->connection().failed());
  }
}

// Its standby pair is on a rail that has no other.
TEST_F(PeerWithoutRecovery, ReceiverOfTwoRails_UsesThatOfTheActivePair) {
  receiver_rails = {{receiver_rails.active[0], open_port("fake_e", 5)}, {}};
  make(/*sender_recovers=*/true, /*receiver_recovers=*/false);
  ASSERT_EQ(end_of(*receiver).rails, 2);
  connect();
  keep_links();
  EXPECT_EQ(receiver->connection().rails().size(), 1u);
  EXPECT_EQ(receiver->connection().registration_scope().rails.size(), 1u);
  exchange({4096});
}

TEST_F(PeerWithoutRecovery, Split_IsOverTheActivePairsAlone) {
  options.connection.split_data_on_qps = true;
  make_and_connect(/*sender_recovers=*/true, /*receiver_recovers=*/false);
  verbs.forget_posted();
  exchange({4096});
  const auto posted = verbs.posted();
  EXPECT_EQ(std::ranges::count(posted, IBV_WR_RDMA_WRITE_WITH_IMM, &fake_verbs::Posted::opcode), 1);
}

// Each takes two entries of the queue.
TEST_F(PeerWithoutRecovery, AsManySendsAsThereAre_TheSendQueueHoldsAllOfThem) {
  options.connection.adaptive_routing = true;
  make_and_connect(/*sender_recovers=*/true, /*receiver_recovers=*/false);
  Buffer from = sender_buffer(32 << 10);
  Buffer to = receiver_buffer(32 << 10);
  std::vector<ReceiveBuffer> group;
  for (int tag = 0; tag < wire::kMaxGroup; ++tag) group.push_back(to.receive(32 << 10, tag));
  for (int i = 0; i < SendComm::kRequests / wire::kMaxGroup; ++i) {
    ASSERT_NE(irecv(group), nullptr) << i;
  }
  verbs.hold();
  int sends = 0;
  while (isend(from, sends % wire::kMaxGroup) != nullptr) ++sends;
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(sender->progress()) << "what was held is posted";
  EXPECT_EQ(sends, 59) << "half of the 119 entries that are not the recovery's";
}

TEST_F(PeerWithoutRecovery, RailFails_TheErrorSaysWhyThereIsNoFailover) {
  make_and_connect(/*sender_recovers=*/true, /*receiver_recovers=*/false);
  verbs.fail_transfer(IBV_WC_RETRY_EXC_ERR, /*skip=*/1);  // of the data
  Buffer from = sender_buffer(4096), to = receiver_buffer(4096);
  Request* receive = irecv(to);
  EXPECT_FALSE(finish_both(isend(from), receive));
  const std::string text = failure_of(*sender).text;
  EXPECT_TRUE(contains_all(text, {"); it did not fail over, as failover is off on ",
                                  " (GDR_NCCL_FAILOVER=0, or little memory to lock). "}));
}

}  // namespace
}  // namespace gdr::transport
