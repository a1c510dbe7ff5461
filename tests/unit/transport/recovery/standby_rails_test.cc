// Standby rails that cannot do what the connection needs of them: it goes on without.
#include <gmock/gmock.h>

#include <cerrno>
#include <thread>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/rails_pair.h"

namespace gdr::transport {
namespace {

using fake_verbs::Call;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// The one warning that names the port, the reason and what the loss of the rail means.
auto is_only_warning_of(const std::string& port, const std::string& reason) {
  return ElementsAre(AllOf(HasSubstr(port), HasSubstr("standby rail"), HasSubstr(reason)));
}

// What is warned of is collected for a second.
std::vector<std::string> awaited_warnings(const RecordedLog& log) {
  for (int i = 0; i < 1000 && log.warnings().empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return log.warnings();
}

struct StandbyRailsTest : testing::Test {
  RecordedLog log;
};

TEST_F(StandbyRailsTest, MemoryCannotBeRegistered_IsGivenUpAtBothEndsForGood) {
  RailsPair pair(1, 1);
  const auto& connection = pair.sender->connection();
  pair.verbs.fail_call(Call::kRegMr, ENOMEM, /*skip=*/1);
  const Buffer buffer = pair.sender_buffer(4096);
  EXPECT_NE(buffer.memory->keys[0].lkey, 0u);
  EXPECT_EQ(buffer.memory->keys[1].lkey, 0u);
  EXPECT_THAT(awaited_warnings(log), is_only_warning_of("fake_s1:1", "it states max_qp "));
  EXPECT_EQ(connection.registration_scope().rails[1].hca, nullptr);
  EXPECT_TRUE(pair.poll_until(
      [&] { return contains(pair.recovery_of(*pair.receiver).state_text(), "fake_r1"); }));
  EXPECT_TRUE(
      pair.poll_until([&] { return !log.lines(" reports: the rail was given up").empty(); }));
  pair.exchange({8, 1 << 20});
  pair.set_port('s', 1, true);  // which is no reason to try the rail again
  pair.exchange({8});
  EXPECT_TRUE(contains(pair.recovery_of(*pair.sender).state_text(), "fake_s1"));
  EXPECT_EQ(log.lines(" reports: the rail was given up").size(), 1u);
  EXPECT_EQ(log.warnings().size(), 1u) << "of the end that gave it up";
}

TEST_F(StandbyRailsTest, MemoryCannotBeRegistered_TheOtherRailHasYetToReturn_IsGivenUp) {
  RailsPair pair(1, 1);
  pair.lose_first_rail();
  pair.verbs.fail_call(Call::kRegMr, ENOMEM, /*skip=*/1);
  const Buffer buffer = pair.sender_buffer(4096);
  pair.set_port('s', 0, true);
  pair.exchange({8});
}

// What is written to a pair that stands by is never data.
TEST_F(StandbyRailsTest, ErrorOfARequestToAPair_EndsTheConnectionUnlessThePairStandsBy) {
  RailsPair pair(1, 1);
  const auto report = [&](const std::string& hca, uint32_t index) {
    const uint32_t number = pair.receiver->connection().rails().pair(index).number;
    pair.verbs.raise_event(hca, IBV_EVENT_QP_ACCESS_ERR, pair.verbs.find(number));
  };
  report("fake_r1", 1);
  EXPECT_TRUE(pair.poll_until(
      [&] { return contains(pair.recovery_of(*pair.sender).state_text(), "fake_s1"); }));
  pair.exchange({8, 1 << 20});
  EXPECT_FALSE(pair.receiver->connection().failed());
  report("fake_r0", 0);
  EXPECT_TRUE(pair.poll_until([&] { return pair.receiver->connection().failed(); }));
}

// The ends of connections with one active and one standby rail.
struct StandbyCreationTest : StandbyRailsTest, RailsBed {
  explicit StandbyCreationTest(bool roce = false)
      : RailsBed(1, 1, test_options(), RailHcas{.roce = roce}) {}

  void create() {
    create_sender();
    create_receiver();
  }
  // Polls both ends until the sender reports the loss of a pair on that port.
  bool loses(const std::string& port) {
    return poll_until([&] { return contains(recovery_of(*sender).state_text(), port); });
  }
};

TEST_F(StandbyCreationTest, TablesCannotBeRegistered_ConnectionGoesWithoutTheRail) {
  verbs.fail_call(Call::kRegMr, ENOMEM, /*skip=*/1);
  create_sender();
  EXPECT_EQ(end_of(*sender).rails, 1);
  EXPECT_STREQ(end_of(*sender).rail[0].hca, "fake_s0");
  EXPECT_THAT(awaited_warnings(log), is_only_warning_of("fake_s1:1", "it states max_qp "));
  create_sender();
  EXPECT_EQ(end_of(*sender).rails, 2);
  log.clear();
  verbs.fail_call(Call::kRegMr, EINVAL, /*skip=*/1);
  create_sender();
  EXPECT_THAT(awaited_warnings(log), is_only_warning_of("fake_s1:1", "(errno 22). Fix: look at"));
}

TEST_F(StandbyCreationTest, NoRailCanBeCreated_ErrorNamesTheActiveOneWithoutAWarning) {
  verbs.fail_call(Call::kCreateCq, ENOMEM, /*skip=*/0, /*times=*/100);
  const auto made =
      SendComm::create(sender_rails, shared(options.connection), watcher.get(), listener_rails());
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().text, HasSubstr("on fake_s0 failed"));
  EXPECT_THAT(log.warnings(), testing::IsEmpty());
}

// It is checked again at each eighth connection.
TEST_F(StandbyCreationTest, LittleMemoryIsLeftToLock_ConnectionGoesWithoutTheRail) {
  options.connection.spare_memory = 1 << 20;
  verbs.fail_call(Call::kRegMr, ENOMEM);
  create_sender();
  EXPECT_EQ(end_of(*sender).rails, 1);
  EXPECT_EQ(end_of(*sender).qps, 1) << "a hello without recovery must have no standby pair";
  EXPECT_EQ(end_of(*sender).recovers, 0);
  EXPECT_EQ(verbs.queue_pairs()[qp_number(*sender)].max_send_wr, 127u);
  EXPECT_THAT(awaited_warnings(log),
              is_only_warning_of("fake_s1:1", "less than 1 MiB would be left"));
  for (int i = 0; i < 8; ++i) {
    create_sender();
    EXPECT_EQ(end_of(*sender).rails, 2);
  }
  verbs.fail_call(Call::kRegMr, ENOMEM);
  create_sender();
  EXPECT_EQ(end_of(*sender).rails, 1);
  EXPECT_EQ(end_of(*sender).recovers, 0);
}

TEST_F(StandbyCreationTest, ActiveRailRegistersNothing_ConnectionGoesOverTheStandbyRail) {
  options.connection.spare_memory = 1 << 20;
  verbs.fail_call(Call::kRegMr, ENOMEM, /*skip=*/0, /*times=*/3);
  create_sender();
  EXPECT_EQ(verbs.failures_left(Call::kRegMr), 0);
  EXPECT_EQ(end_of(*sender).rails, 1);
  EXPECT_STREQ(end_of(*sender).rail[0].hca, "fake_s1");
  EXPECT_NE(end_of(*sender).recovers, 0);
}

// Its queue pair has been ready to receive all the same, so that those that were posted are
// flushed.
TEST_F(StandbyCreationTest, ReceivesCannotAllBePosted_ThePairReturnsLater) {
  create_sender();
  create_receiver();
  connect();
  EXPECT_EQ(receiver->connection().rails().pair(1).qp->state, IBV_QPS_RTS);
  verbs.fail_call(Call::kPostRecv, ENOMEM, /*skip=*/192 + 100);
  keep_links();
  EXPECT_EQ(verbs.failures_left(Call::kPostRecv), 0);
  EXPECT_TRUE(poll_until(
      [&] { return receiver->connection().recovery()->counters(1).returns.load() == 1; }));
}

// With statuses that end a connection whose data they concern.
TEST_F(StandbyCreationTest, ProbeOfTheStandbyRailIsRefused_ThatRailAloneIsLost) {
  for (const ibv_wc_status status :
       {IBV_WC_REM_ACCESS_ERR, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR}) {
    create();
    const uint32_t standby = sender->connection().rails().pair(1).number;
    verbs.fail_each(status, [=](const auto& transfer) { return transfer.qp_num == standby; });
    connect();
    keep_links();
    EXPECT_TRUE(loses("fake_s1")) << status;
    exchange({8, 1 << 20});
    EXPECT_FALSE(sender->connection().failed() || receiver->connection().failed()) << status;
    verbs.fail_each(IBV_WC_SUCCESS, [](const auto&) { return false; });
    sender.reset();
    receiver.reset();
  }
  EXPECT_FALSE(log.lines("the plugin's own tables").empty()) << "of either end";
  EXPECT_TRUE(log.warnings("while in use").empty());
}

TEST_F(StandbyCreationTest, Text_MarksTheStandbyRailsOfBothEnds) {
  create();
  connect();
  EXPECT_THAT(sender->text(),
              testing::MatchesRegex(".* fake_s0:1 [^)]* \\+ fake_s1:1 [^)]* \\(standby\\) "
                                    "<-> .* fake_r0:1 [^)]* \\+ fake_r1:1 [^)]* "
                                    "\\(standby\\), 2 QP.*"));
}

// The last usable port: its connection is not lost yet, and neither is it one that goes on.
TEST_F(StandbyRailsTest, BothPortsGoDown_TheLastIsAWarningThatTheConnectionWaits) {
  RailsPair pair(1, 1);
  pair.set_port('s', 0, false);
  ASSERT_TRUE(pair.poll_until([&] { return !log.lines("is lost: the port is down").empty(); }));
  EXPECT_THAT(log.lines("cannot go on"), testing::IsEmpty());
  pair.set_port('s', 1, false);
  ASSERT_TRUE(pair.poll_until([&] { return !log.warnings("cannot go on without it").empty(); }));
  const std::vector<std::string> warnings = log.warnings("NET/GDR : fake_s");
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_THAT(warnings[0], testing::HasSubstr("fake_s0:1 <-> "));
  EXPECT_THAT(warnings[1], testing::HasSubstr("fake_s1:1 reports"));
  EXPECT_THAT(warnings[1],
              testing::HasSubstr("; 1 connection cannot go on without it: the HCA retries"));
  pair.set_port('s', 1, true);
  EXPECT_TRUE(wait_for([&] { return log.lines("fake_s1:1 reports").size() == 2u; }));
  EXPECT_FALSE(pair.sender->connection().failed());
}

// The sink gets the subsystems, by which NCCL_DEBUG_SUBSYS filters.
TEST_F(StandbyRailsTest, PortFlaps_BothEventsAreShownByDefault) {
  static std::atomic<int> shown, all;
  shown = all = 0;
  RailsPair pair(1, 1);
  log::set_sink([](log::Level, unsigned long of, const char*, int, const char* text) {
    if (!contains(text, "fake_s0:1 reports")) return;
    shown += (of & log::kInit) != 0 ? 1 : 0;
    ++all;
  });
  pair.set_port('s', 0, false);
  EXPECT_TRUE(wait_for([&] { return all == 1; }));
  pair.set_port('s', 0, true);
  EXPECT_TRUE(wait_for([&] { return all == 2; }));
  EXPECT_EQ(shown, 2);
}

// Nothing but a transfer shows that, and the rail carries none.
TEST_F(StandbyCreationTest, PathOfTheStandbyPairDoesNotWork_IsReportedFromTheStart) {
  create();
  connect();
  verbs.fail_transfer(IBV_WC_RETRY_EXC_ERR);
  keep_links();
  EXPECT_TRUE(loses("fake_s1"));
  EXPECT_TRUE(wait_for([&] {
    (void)sender->progress();
    return !log.warnings("probe of 4096 bytes failed with RETRY_EXC_ERR").empty();
  }));
  EXPECT_FALSE(sender->connection().failed());
}

// Its event went to nobody, and the connection would wait for the retries of what it posts there.
TEST_F(StandbyCreationTest, PortGoesDownWhileTheConnectionIsMade_IsLookedAt) {
  create();
  connect();
  verbs.port("fake_s0", 1).active = false;
  keep_links();
  const std::string state = sender->connection().recovery()->state_text();
  EXPECT_TRUE(contains(state, "fake_s0") && contains(state, "the port is down")) << state;
}

struct UnreachableStandbyTest : StandbyCreationTest {
  UnreachableStandbyTest() : StandbyCreationTest(/*roce=*/true) {}
};

TEST_F(UnreachableStandbyTest,
       PeersAddressIsNotResolved_IsTriedOnceForAllConnectionsAndWarnedOfOnce) {
  create_sender();
  create_receiver();
  const std::unique_ptr<ReceiveComm> first = std::move(receiver), &second = receiver;
  create_receiver();
  // The pair, the flush of its rail, and the standby pair.
  verbs.fail_call(Call::kModifyToRtr, ETIMEDOUT, /*skip=*/2);
  EXPECT_TRUE(first->connect(end_of(*sender)).value()) << "at once";
  EXPECT_EQ(verbs.failures_left(Call::kModifyToRtr), 0);
  EXPECT_TRUE(second->connect(end_of(*sender)).value());
  EXPECT_EQ(second->connection().rails().pair(0).qp->state, IBV_QPS_RTS);
  EXPECT_EQ(second->connection().rails().pair(1).qp->state, IBV_QPS_INIT);
  EXPECT_THAT(awaited_warnings(log),
              is_only_warning_of("fake_s1:1: the standby rail between", "resolved"));
}

// Two nodes that are down say nothing about the others of the subnet once one of these is reached.
TEST_F(UnreachableStandbyTest, HandshakeReachesAPeer_ItsSubnetIsReachable) {
  create();
  const wire::RailAddress local = sender->connection().rails()[0].address();
  auto of_subnet = [&](uint8_t host) {
    wire::RailAddress peer = local;
    peer.gid[15] = host;
    return peer;
  };
  UnreachablePaths& paths = watcher->unreachable_paths();
  for (uint8_t host : {200, 201}) paths.add(local, of_subnet(host), Clock::now());
  EXPECT_TRUE(paths.contains(local, of_subnet(202), Clock::now()));
  connect();
  keep_links();
  EXPECT_FALSE(paths.contains(local, of_subnet(202), Clock::now()));
  EXPECT_TRUE(paths.contains(local, of_subnet(201), Clock::now()));
}

TEST_F(UnreachableStandbyTest, PairIsNotConnected_OnlyItsEndWarns) {
  create();
  verbs.fail_call(Call::kModifyToRtr, ETIMEDOUT, /*skip=*/2);
  connect();
  keep_links();
  EXPECT_TRUE(loses("fake_s1"));
  EXPECT_TRUE(poll_until([&] { return !log.lines("fake_r1:1 is lost: ").empty(); }));
  EXPECT_THAT(awaited_warnings(log),
              is_only_warning_of("fake_s1:1: the standby rail between", "resolved"));
}

}  // namespace
}  // namespace gdr::transport
