#include "transport/recovery/blocking_calls.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/no_threads.h"
#include "tests/unit/transport/recovery/recovery_bed.h"

namespace gdr::transport {
namespace {

using namespace std::chrono_literals;

// Pair 1 is lost, and due to be revived in on_tick.
struct BlockingCallsTest : RecoveringEnds {
  void SetUp() override {
    bed.fail_pair(sender, 1);
    bed.run();
    bed.skip(1100ms);
  }
};

TEST_F(BlockingCallsTest, PairIsDue_TheTickItselfDoesNotTouchItsQueuePair) {
  EXPECT_TRUE(sender.recovery->steps().on_tick(bed.now()).revives);
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_ERR);
  EXPECT_GT(sender.recovery->steps().deadline(), bed.now()) << "the watcher would not sleep";
  EXPECT_FALSE(sender.recovery->steps().on_tick(bed.now()).revives) << "it was asked for already";
  sender.recovery->steps().revive_pairs(bed.now(), 1 << 1);
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_RTS);
  EXPECT_FALSE(sender.recovery->steps().on_tick(bed.now()).revives);
}

// As where the watcher has no memory to pass the calls on.
TEST_F(BlockingCallsTest, CallsAreTakenBack_TheNextTickAsksForThemAgain) {
  RecoverySteps& steps = sender.recovery->steps();
  steps.take_back(steps.on_tick(bed.now()));
  EXPECT_TRUE(steps.on_tick(bed.now()).revives);
  bed.fail_pair(sender, 0);
  const RecoverySteps::Due lost = steps.on_tick(bed.now());
  EXPECT_EQ(lost.stops, 1u);
  EXPECT_EQ(steps.on_tick(bed.now()).stops, 0u) << "it was asked for already";
  steps.take_back(lost);
  EXPECT_EQ(steps.on_tick(bed.now()).stops, 1u);
  EXPECT_EQ(sender.qp(0)->state, IBV_QPS_RTS);
  steps.stop_pairs(1);
  EXPECT_EQ(sender.qp(0)->state, IBV_QPS_ERR);
}

TEST(BlockingCalls, NoThreadCanBeStarted_TheCallerMakesTheCallUntilOneCan) {
  BlockingCalls calls("caller");
  std::thread::id made_by;
  std::promise<void> made;
  {
    const NoThreads none;
    calls.add([&] { made_by = std::this_thread::get_id(); });
    EXPECT_EQ(made_by, std::this_thread::get_id());
  }
  calls.add([&] {
    made_by = std::this_thread::get_id();
    made.set_value();
  });
  made.get_future().wait();
  EXPECT_NE(made_by, std::this_thread::get_id());
}

TEST(BlockingCalls, CallsFail_OneWarningWithTheFixUntilOneSucceeds) {
  RecordedLog log;
  BlockingCalls calls("caller");
  const auto fail = [] { throw std::bad_alloc(); };
  std::promise<void> done;
  for (int i = 0; i < 3; ++i) calls.add(fail);
  calls.add([] {});
  calls.add(fail);
  calls.add([&] { done.set_value(); });
  done.get_future().wait();
  ASSERT_EQ(log.warnings().size(), 2u);
  EXPECT_TRUE(contains_all(log.warnings()[0], {"caller: a call failed, and is tried again: std::",
                                               "Fix: raise the memory limit"}));
}

// Firmware that does not answer to the change to ERROR until it is released.
struct HangingFirmware {
  explicit HangingFirmware(fake_verbs::FakeVerbs& verbs) {
    entered = {}, released = {};
    modify =
        std::exchange(verbs.mutable_api().modify_qp, [](ibv_qp* qp, ibv_qp_attr* attr, int mask) {
          if (attr->qp_state == IBV_QPS_ERR) {
            entered.set_value();
            released.get_future().wait();
          }
          return modify(qp, attr, mask);
        });
  }
  static inline std::promise<void> entered, released;
  static inline decltype(verbs::Api::modify_qp) modify;
};

TEST(HangingFirmwareTest, QueuePairIsStopped_TheWatcherAndTheConnectionGoOnMeanwhile) {
  RecoveryBed bed;
  HangingFirmware firmware(bed.verbs);
  RecoveringEnd& sender = bed.sender;
  bed.send(1);
  bed.fail_pair(sender, 1);
  const std::shared_ptr<Recovery> shared(std::shared_ptr<Recovery>(), &*sender.recovery);
  bed.watcher->add({sender.link, {}, shared});
  firmware.entered.get_future().wait();
  auto sockets = local_socket_pair();
  auto other = std::make_shared<PeerLink>(FrameChannel(std::move(sockets[0])), "c", "sender");
  bed.watcher->add({other});
  FrameChannel peer(std::move(sockets[1]));
  peer.queue_text(wire::FrameKind::kFailed, "it fails");
  ASSERT_TRUE(peer.flush());
  EXPECT_TRUE(wait_for([&] { return other->failed(); })) << "the watcher waits for the firmware";
  sender.follow_news();
  EXPECT_TRUE(sender.has_seen(PairNews::Kind::kLost, 1));
  EXPECT_TRUE(contains(sender.recovery->state_text(), "the ends have not agreed yet"));
  std::thread closer([&] { sender.recovery->close(); });
  firmware.released.set_value();
  closer.join();
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_ERR) << "close() waits for the queue pair";
  bed.watcher->remove(other.get());
  bed.watcher->remove(sender.link.get());
}

// Firmware that does not answer for the state of the port of the sender's second HCA.
struct HangingPort {
  explicit HangingPort(RecoveryBed& bed) {
    context = bed.sender.connection.rails()[1].device().hca->context();
    entered = {}, released = {};
    query = std::exchange(bed.verbs.mutable_api().query_port, [](ibv_context* of, auto... rest) {
      if (of == context) {
        entered.set_value();
        released.get_future().wait();
        context = nullptr;
      }
      return query(of, rest...);
    });
  }
  static inline ibv_context* context;
  static inline std::promise<void> entered, released;
  static inline decltype(verbs::Api::query_port) query;
};

TEST(HangingFirmwareTest, PortIsQueried_ThePairOfAnotherHcaReturnsMeanwhile) {
  RecoveryBed bed;
  RecoveringEnd& sender = bed.sender;
  for (uint32_t pair : {1, 0}) bed.fail_pair(sender, pair);
  bed.run();
  HangingPort firmware(bed);
  std::atomic<bool> revived = false;
  sender.while_reviving = [&]() -> Status {
    revived = true;
    return {};
  };
  bed.skip(1100ms);
  const std::shared_ptr<Recovery> shared(std::shared_ptr<Recovery>(), &*sender.recovery);
  bed.watcher->add({sender.link, {}, shared});
  firmware.entered.get_future().wait();
  EXPECT_TRUE(wait_for([&] { return revived.load(); }));
  firmware.released.set_value();
  sender.recovery->close();
  bed.watcher->remove(sender.link.get());
}

// Nor can a thread be started for it, so that the watcher makes it.
TEST(WatcherWithoutMemory, QueuePairIsToBeStopped_ItIsOnceThereIsMemory) {
  static std::atomic<int> calls;
  static decltype(verbs::Api::modify_qp) modify;
  calls = 0;
  RecoveryBed bed;
  modify = std::exchange(bed.verbs.mutable_api().modify_qp, [](auto... arguments) {
    if (++calls == 1) throw std::bad_alloc();
    return modify(arguments...);
  });
  const NoThreads none;
  bed.fail_pair(bed.sender, 1);
  const std::shared_ptr<Recovery> shared(std::shared_ptr<Recovery>(), &*bed.sender.recovery);
  bed.watcher->add({bed.sender.link, {}, shared});
  EXPECT_TRUE(wait_for([] { return calls == 2; }));
  bed.sender.recovery->close();
  bed.watcher->remove(bed.sender.link.get());
}

TEST_F(BlockingCallsTest, RevivalBlocks_TheConnectionRecoversAndTheOthersAreServedLater) {
  std::promise<void> entered, released;
  sender.while_reviving = [&]() -> Status {
    entered.set_value();
    released.get_future().wait();
    return {};
  };
  for (RecoveringEnd* end : {&sender, &receiver}) {
    ASSERT_TRUE(end->recovery->steps().on_tick(bed.now()).revives);
  }
  BlockingCalls reviver("reviver");
  for (RecoveringEnd* end : {&sender, &receiver}) {
    reviver.add([&, end] { end->recovery->steps().revive_pairs(bed.now(), 1 << 1); });
  }
  entered.get_future().wait();
  sender.recovery->steps().on_tick(bed.now());
  bed.exchange();
  EXPECT_NE(sender.recovery->state_text(), "");
  released.set_value();
  std::promise<void> both_revived;
  reviver.add([&] { both_revived.set_value(); });
  both_revived.get_future().wait();
  for (RecoveringEnd* end : {&sender, &receiver}) EXPECT_EQ(end->qp(1)->state, IBV_QPS_RTS);
}

TEST_F(BlockingCallsTest, ClosedWhileItRevives_CloseWaitsForTheQueuePair) {
  std::thread closer;
  ibv_qp_state seen = IBV_QPS_UNKNOWN;
  sender.while_reviving = [&]() -> Status {
    closer = std::thread([&] {
      sender.recovery->close();
      seen = sender.qp(1)->state;
    });
    return {};
  };
  ASSERT_TRUE(sender.recovery->steps().on_tick(bed.now()).revives);
  sender.recovery->steps().revive_pairs(bed.now(), 1 << 1);
  closer.join();
  EXPECT_EQ(seen, IBV_QPS_RTS);
}

// Firmware that does not answer must not hold up the watcher, nor a data path that needs the mutex.
TEST_F(BlockingCallsTest, PortsAreQueried_TheTickDoesNotQueryThem) {
  bed.verbs.fail_call(fake_verbs::Call::kQueryPort, EIO);
  ASSERT_TRUE(sender.recovery->steps().on_tick(bed.now()).revives);
  EXPECT_EQ(bed.verbs.failures_left(fake_verbs::Call::kQueryPort), 1);
  sender.recovery->steps().revive_pairs(bed.now(), 1 << 1);
  EXPECT_EQ(bed.verbs.failures_left(fake_verbs::Call::kQueryPort), 0);
  EXPECT_TRUE(contains(sender.recovery->state_text(), "tried again"));
  EXPECT_FALSE(sender.recovery->steps().on_tick(bed.now()).revives);
}

}  // namespace
}  // namespace gdr::transport
