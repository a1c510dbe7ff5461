// Connections of which an active rail cannot be created: the others meet the peer's rails that they
// are meant for.
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/rails_pair.h"

namespace gdr::transport {
namespace {

using fake_verbs::Call;

struct MissingRails : testing::Test, RailsBed {
  MissingRails() : RailsBed(2) {}

  // "fake_s1 fake_r1": the HCAs of a pair.
  std::string ends_of(size_t pair) const {
    const wire::EndPoint here = end_of(*sender);
    const wire::EndPoint there = end_of(*receiver);
    return std::string(here.rail[here.qp[pair].rail].hca) + " " +
           there.rail[there.qp[pair].rail].hca;
  }
  // The pairs that this end's recovery counts as lost.
  template <class Comm>
  std::string lost(Comm& comm) const {
    return comm.connection().recovery()->state_text();
  }

  RecordedLog log;
};

TEST_F(MissingRails, AtEitherEnd_TheOtherMeetsItsOwn) {
  for (const bool at_sender : {true, false}) {
    if (at_sender) verbs.fail_call(Call::kCreateCq, ENOMEM);
    create_sender();
    if (!at_sender) verbs.fail_call(Call::kCreateCq, ENOMEM);
    create_receiver();
    connect();
    keep_links();
    EXPECT_EQ(end_of(*sender).rails, at_sender ? 1 : 2);
    EXPECT_EQ(end_of(*receiver).rails, at_sender ? 2 : 1);
    EXPECT_EQ(ends_of(1), "fake_s1 fake_r1");
    EXPECT_EQ(sender->connection().rails().pair(1).qp->state, IBV_QPS_RTS);
    const std::string own = at_sender ? lost(*sender) : lost(*receiver);
    EXPECT_TRUE(contains(own, at_sender ? "fake_r0" : "fake_s0")) << own;
    EXPECT_FALSE(contains(own, at_sender ? "fake_r1" : "fake_s1")) << own;
  }
}

TEST_F(MissingRails, FlushCannotBeCreated_PairOfTheRailIsNotUsed) {
  create_sender();
  create_receiver();
  verbs.fail_call(Call::kRegMr, ENOMEM, /*skip=*/1);  // of what the reads go to
  connect();
  keep_links();
  EXPECT_TRUE(poll_until([&] {
    return log.warnings("fake_r1:1: connections go without it, over their other").size() == 1;
  }));
  EXPECT_TRUE(receiver->connection().recovery()->is_given_up(1));
  EXPECT_FALSE(receiver->connection().recovery()->is_given_up(0));
  EXPECT_TRUE(poll_until([&] { return contains(lost(*sender), "errno 12), not used again"); }));
}

// All pairs are on the rail that is left.
TEST_F(MissingRails, NoPairWouldBeConnected_LastOneIs) {
  sender_rails.active.pop_back();
  create_sender();
  verbs.fail_call(Call::kCreateCq, ENOMEM);
  create_receiver();
  connect();
  keep_links();
  EXPECT_EQ(end_of(*receiver).rails, 1);
  const size_t last = end_of(*sender).qps - 1u;
  EXPECT_EQ(ends_of(last), "fake_s0 fake_r1");
  EXPECT_EQ(receiver->connection().rails().pair(last).qp->state, IBV_QPS_RTS);
}

// Each end excludes the pairs that are not where they are meant to be, so that none is usable at
// the start; each is tried again after a second. The first, over which a receiver begins to
// announce, is one of them.
TEST(OtherRailsMissingAtEachEnd, TwoOfFour_TheConnectionWaitsAndUsesWhatIsLeft) {
  RailsPair pair(4, 0, test_options(), local_socket_pair(),
                 {.broken = {"fake_s2", "fake_s3", "fake_r0", "fake_r1"}});
  const auto returned = [&](auto& comm) {
    const Recovery& recovery = pair.recovery_of(comm);
    return recovery.counters(0).returns + recovery.counters(1).returns == 4;
  };
  EXPECT_EQ(end_of(*pair.sender).rails, 2);
  EXPECT_EQ(end_of(*pair.receiver).rails, 2);
  Buffer from = pair.sender_buffer(8);
  Buffer to = pair.receiver_buffer(8);
  Request* early = pair.irecv(to);
  ASSERT_TRUE(pair.poll_until([&] { return returned(*pair.sender) && returned(*pair.receiver); }))
      << pair.recovery_of(*pair.sender).state_text() << failure_of(*pair.sender).text;
  ASSERT_TRUE(pair.poll_until([] { return true; }));  // which takes the news
  Request* send = pair.isend_soon(from);
  ASSERT_TRUE(early != nullptr && send != nullptr);
  ASSERT_TRUE(pair.finish_both(send, early)) << failure_of(*pair.receiver).text;
  EXPECT_EQ(from.bytes, to.bytes);
  pair.exchange({0, 100, 1 << 20});
  for (uint32_t rail : {0u, 1u}) {
    EXPECT_GT(pair.recovery_of(*pair.receiver).counters(rail).bytes.load(), 0u) << rail;
  }
}

}  // namespace
}  // namespace gdr::transport
