#include "transport/pairs/state_changes.h"

#include <gtest/gtest.h>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/comm_pair.h"

namespace gdr::transport {
namespace {

using fake_verbs::Call;
using namespace std::chrono_literals;

// A QP that is to be connected to itself over RoCE.
struct QpToConnect {
  ManualClock clock;
  ConnectionOptions options;
  Fabric fabric{test_options(), true};
  RailEnd end = RailEnd::create(fabric.sender_device, RailSpec{1, {4, 4, 0}, 0}, options).value();
  ibv_qp* qp = end.qps()[0].qp.get();
  StateChanges changes;

  QpToConnect() {
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

struct StateChangesTest : testing::Test, QpToConnect {};

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
}

// 34 retries with pauses of 100 to 3400 ms, as NCCL's net_ib has them.
TEST_F(StateChangesTest, TimesOutForGood_FailsAfterAMinuteAndNamesAddressAndFix) {
  fabric.verbs.fail_call(Call::kModifyToRtr, ETIMEDOUT, 0, 1000);
  EXPECT_EQ(run(), 59500ms);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().sys_errno, ETIMEDOUT);
  EXPECT_EQ(fabric.verbs.failures_left(Call::kModifyToRtr), 1000 - 35);
  EXPECT_TRUE(contains_all(result.error().text, {"of fake_a:1 to RTR failed 35 times: Connection "
                                                 "timed out (errno 110): the peer's address ",
                                                 "::ffff:10.0.0.1", "neighbour discovery",
                                                 "Fix: ", "NCCL_IB_MQP_RETRY_CNT"}));
}

TEST(StateChanges, ErrorCountPauseAndRetryAll_DecideHowOftenItIsTried) {
  const struct {
    const char* name;
    int error;
    int failures;
    void (*change)(ConnectionOptions&);
    std::chrono::milliseconds time;
    const char* failure;  // a part of its text; null: the change succeeds
  } cases[] = {
      // Some drivers return the negative value.
      {"NegativeErrno", -ETIMEDOUT, 1, [](auto&) {}, 100ms, nullptr},
      {"OtherError", ENETUNREACH, 1, [](auto&) {}, 0ms, "no route to the peer"},
      {"NoRoom", ENOMEM, 1, [](auto&) {}, 0ms, "no room for another connected QP"},
      {"RetryAll", ENETUNREACH, 1, [](auto& some) { some.modify_retry_all = true; }, 100ms,
       nullptr},
      {"CountAndPauseOfTheUser", ETIMEDOUT, 3,
       [](auto& some) { some.modify_retries = 2, some.modify_retry_pause = 50ms; }, 150ms,
       "failed 3 times"},
      {"NoRetries", ETIMEDOUT, 1, [](auto& some) { some.modify_retries = 0; }, 0ms, "RTR failed"},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.name);
    QpToConnect own;
    one.change(own.options);
    own.fabric.verbs.fail_call(Call::kModifyToRtr, one.error, 0, one.failures);
    EXPECT_EQ(own.run(), one.time);
    ASSERT_EQ(own.result.has_value(), one.failure == nullptr);
    if (own.result) continue;
    const std::string& text = own.result.error().text;
    EXPECT_TRUE(contains(text, one.failure)) << text;
    EXPECT_FALSE(one.error == ENOMEM && contains(text, "GID")) << text;
    EXPECT_EQ(contains(text, "times"), contains(one.failure, "times"));
  }
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

// Two QPs that the connection can do without: of a pair, and of a standby pair.
struct OptionalChangesTest : StateChangesTest {
  enum { kActive, kStandby };
  RailEnd rail = RailEnd::create(fabric.sender_device, RailSpec{2, {4, 4, 0}, 0}, options).value();
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

}  // namespace
}  // namespace gdr::transport
