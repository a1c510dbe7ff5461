#include "transport/data/state_changes.h"

#include <gtest/gtest.h>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/comm_pair.h"

namespace gdr::transport {
namespace {

using fake_verbs::Call;
using namespace std::chrono_literals;

// A QP that is to be connected to itself over RoCE.
struct StateChangesTest : testing::Test {
  ManualClock clock;
  ConnectionOptions options;
  Fabric fabric{test_options(), true};
  RailEnd end =
      RailEnd::create(fabric.sender_device, 0, RailSpec{1, {4, 4, 0}, 0}, options).value();
  ibv_qp* qp = end.qps()[0].qp.get();
  StateChanges changes;

  void SetUp() override {
    options.now = clock.as_now();
    const QueuePairPath path{&end.address(), &end.address(), qp->qp_num, 0, 0, {}};
    changes.add(to_init(end.device(), qp, options));
    changes.add(to_ready_to_receive(end.device(), qp, path));
    changes.add(to_ready_to_send(end.device(), qp, path, options));
  }
  // Steps and moves the clock by 10 ms until the changes are made or fail. Returns the time spent.
  std::chrono::milliseconds run() {
    const Clock::time_point began = clock.now;
    for (result = changes.step(options); result && !*result; result = changes.step(options)) {
      clock.now += 10ms;
    }
    return std::chrono::duration_cast<std::chrono::milliseconds>(clock.now - began);
  }
  Result<bool> result = false;
};

TEST_F(StateChangesTest, NothingFails_AllAreMadeInOneStep) {
  EXPECT_TRUE(changes.step(options).value());
  EXPECT_EQ(qp->state, IBV_QPS_RTS);
  EXPECT_TRUE(changes.step(options).value()) << "nothing is left to do";
}

TEST_F(StateChangesTest, AnyChangeTimesOut_EachHasItsOwnRetries) {
  for (Call call : {Call::kModifyToInit, Call::kModifyToRtr, Call::kModifyToRts}) {
    fabric.verbs.fail_call(call, ETIMEDOUT, 0, 3);
  }
  EXPECT_EQ(run(), 3 * (100ms + 200ms + 300ms));
  EXPECT_TRUE(result.value());
  EXPECT_EQ(qp->state, IBV_QPS_RTS);
  EXPECT_EQ(changes.take_retries(), 9u);
  EXPECT_EQ(changes.take_retries(), 0u) << "each counts once";
}

// Some drivers return the negative value.
TEST_F(StateChangesTest, NegativeErrno_IsTheSame) {
  fabric.verbs.fail_call(Call::kModifyToRtr, -ETIMEDOUT, 0, 1);
  EXPECT_EQ(run(), 100ms);
  EXPECT_TRUE(result.value());
}

// 34 retries with pauses of 100 to 3400 ms, as NCCL's net_ib has them.
TEST_F(StateChangesTest, TimesOutForGood_FailsAfterAMinuteAndNamesAddressAndFix) {
  fabric.verbs.fail_call(Call::kModifyToRtr, ETIMEDOUT, 0, 1000);
  EXPECT_EQ(run(), 59500ms);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().sys_errno, ETIMEDOUT);
  EXPECT_EQ(fabric.verbs.failures_left(Call::kModifyToRtr), 1000 - 35);
  for (const char* part :
       {"of fake_a:1 to RTR failed 35 times in 59500 ms: Connection "
        "timed out (errno 110): the peer's address ",
        "::ffff:10.0.0.1", "neighbour discovery", "Fix: ", "NCCL_IB_MQP_RETRY_CNT"}) {
    EXPECT_TRUE(contains(result.error().text, part)) << part << " in " << result.error().text;
  }
}

TEST_F(StateChangesTest, OtherError_IsFinalUnlessAllAreTriedAgain) {
  fabric.verbs.fail_call(Call::kModifyToRtr, ENETUNREACH);
  EXPECT_EQ(run(), 0ms);
  ASSERT_FALSE(result);
  EXPECT_TRUE(contains(result.error().text, "no route to the peer")) << result.error().text;
  EXPECT_FALSE(contains(result.error().text, "times")) << result.error().text;
}

TEST_F(StateChangesTest, RetryAll_TriesAgainAfterAnyError) {
  options.modify_retry_all = true;
  fabric.verbs.fail_call(Call::kModifyToRtr, ENETUNREACH);
  EXPECT_EQ(run(), 100ms);
  EXPECT_TRUE(result.value());
}

TEST_F(StateChangesTest, UserChoosesCountAndPause_TheyAreUsed) {
  options.modify_retries = 2;
  options.modify_retry_pause = 50ms;
  fabric.verbs.fail_call(Call::kModifyToInit, ETIMEDOUT, 0, 3);
  EXPECT_EQ(run(), 150ms);
  ASSERT_FALSE(result);
  EXPECT_TRUE(contains(result.error().text, "failed 3 times")) << result.error().text;
}

TEST_F(StateChangesTest, NoRetriesWanted_TheFirstFailureIsFinal) {
  options.modify_retries = 0;
  fabric.verbs.fail_call(Call::kModifyToRtr, ETIMEDOUT);
  EXPECT_EQ(run(), 0ms);
  EXPECT_FALSE(result);
}

TEST_F(StateChangesTest, SeveralRetries_AreLoggedByTwoLines) {
  RecordedLog log;
  fabric.verbs.fail_call(Call::kModifyToRtr, ETIMEDOUT, 0, 5);
  run();
  EXPECT_EQ(log.lines("to RTR failed with errno 110").size(), 1u);
  EXPECT_EQ(log.lines("to RTR succeeded at attempt 6").size(), 1u);
  EXPECT_TRUE(log.warnings("RTR").empty());
}

TEST_F(StateChangesTest, Before_RunsOnceAheadOfItsChange) {
  StateChanges some;
  int calls = 0;
  StateChange change = to_init(end.device(), qp, options);
  change.before = [&]() -> Status {
    ++calls;
    EXPECT_EQ(qp->state, IBV_QPS_RESET);
    return {};
  };
  some.add(std::move(change));
  fabric.verbs.fail_call(Call::kModifyToInit, ETIMEDOUT, 0, 2);
  for (int i = 0; i < 3; ++i) {
    clock.now += 1s;
    EXPECT_EQ(some.step(options).value(), i == 2);
  }
  EXPECT_EQ(calls, 1);
}

// Three QPs that the connection can do without: of a pair, of a standby pair, and of a flush.
struct OptionalChangesTest : StateChangesTest {
  enum { kActive, kStandby, kFlush };
  RailEnd rail =
      RailEnd::create(fabric.sender_device, 0, RailSpec{3, {4, 4, 0}, 0}, options).value();
  StateChanges optional;

  ibv_qp_state state_of(int which) { return rail.qps()[which].qp->state; }
  void add(int which) {
    ibv_qp* own = rail.qps()[which].qp.get();
    const QueuePairPath path{&rail.address(), &rail.address(), own->qp_num, 0, 0, {}};
    for (StateChange change :
         {to_init(rail.device(), own, options), to_ready_to_receive(rail.device(), own, path),
          to_ready_to_send(rail.device(), own, path, options)}) {
      change.optional = true;
      change.standby = which == kStandby && change.attr.qp_state != IBV_QPS_INIT;
      change.rail = which == kFlush ? 0 : -1;
      optional.add(std::move(change));
    }
  }
};

TEST_F(OptionalChangesTest, StandbyPairTimesOut_NothingWaitsForIt) {
  add(kStandby);
  add(kActive);
  fabric.verbs.fail_call(Call::kModifyToRtr, ETIMEDOUT, /*skip=*/1, 10);
  EXPECT_TRUE(optional.step(options).value());
  EXPECT_EQ(state_of(kActive), IBV_QPS_RTS);
  const std::vector<FailedQueuePair> failed = optional.take_failed();
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].qp, rail.qps()[kStandby].qp.get());
  EXPECT_EQ(failed[0].error.sys_errno, ETIMEDOUT);
  EXPECT_EQ(fabric.verbs.failures_left(Call::kModifyToRtr), 9);
}

TEST_F(OptionalChangesTest, OtherPairIsStillTried_StandbyPairComesLater) {
  add(kStandby);
  add(kActive);
  fabric.verbs.fail_call(Call::kModifyToRtr, ETIMEDOUT);
  EXPECT_FALSE(optional.step(options).value());
  EXPECT_EQ(state_of(kStandby), IBV_QPS_INIT) << "which takes receives";
  clock.now += 100ms;
  EXPECT_TRUE(optional.step(options).value());
  EXPECT_EQ(state_of(kActive), IBV_QPS_RTS);
  EXPECT_EQ(state_of(kStandby), IBV_QPS_RTS);
}

TEST_F(OptionalChangesTest, NoOtherPairConnects_StandbyPairIsTriedForLong) {
  add(kStandby);
  fabric.verbs.fail_call(Call::kModifyToRtr, ETIMEDOUT, 0, 5);
  for (int i = 0; i < 5; ++i, clock.now += 1s) EXPECT_FALSE(optional.step(options).value());
  EXPECT_TRUE(optional.step(options).value());
  EXPECT_EQ(state_of(kStandby), IBV_QPS_RTS);
}

// A flush connects to itself, which shows nothing about the peer.
TEST_F(OptionalChangesTest, OnlyAFlushIsConnected_PairIsTriedForLong) {
  add(kFlush);
  add(kActive);
  fabric.verbs.fail_call(Call::kModifyToRtr, ETIMEDOUT, /*skip=*/1, 5);
  for (int i = 0; i < 5; ++i, clock.now += 1s) EXPECT_FALSE(optional.step(options).value());
  EXPECT_TRUE(optional.step(options).value());
  EXPECT_TRUE(optional.take_failed().empty());
}

}  // namespace
}  // namespace gdr::transport
