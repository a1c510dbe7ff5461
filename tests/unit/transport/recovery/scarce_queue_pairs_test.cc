// HCAs that have no queue pair left: no connection fails for a standby rail, or loses its own rail
// to one.
#include <gmock/gmock.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <thread>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/rails_pair.h"
#include "transport/data/flush.h"

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

// By a registration of 8 bytes of host memory on all rails of the sender.
struct ScarceMemory : ScarceQueuePairs {
  Result<std::unique_ptr<MemoryHandle>> register_word(size_t index) {
    const MemoryRegion region{reinterpret_cast<uintptr_t>(&memory[index * 4096]), 8};
    return registrar.register_memory(sender->connection().registration_scope(), region);
  }
  int registrations() { return verbs.live().mrs; }

  std::vector<char> memory = std::vector<char>(3 * 4096);
  Registrar registrar{shared(options.memory)};
};

TEST_F(ScarceMemory, RegistrationOnTheActiveRail_StandbyPairAndWhatIsRegisteredThereGiveWay) {
  const auto first = register_word(0).value();
  EXPECT_NE(first->keys[1].lkey, 0u);
  const int before = registrations();
  verbs.fail_call(fake_verbs::Call::kRegMr, ENOMEM);
  auto second = register_word(1).value();
  EXPECT_FALSE(recovery_of(*sender).has_queue_pair(1));
  EXPECT_THAT(log.warnings("Standby rails give way"), testing::SizeIs(1));
  EXPECT_EQ(registrations(), before - 1) << "one more on rail 0; a word and the tables on rail 1";
  exchange({8, 1 << 20});
  second.reset();
  EXPECT_EQ(registrations(), before - 2);
}

// NCCL frees the memory once the handle has ended.
TEST_F(ScarceMemory, HandleEndsWhileItsRailGivesWay_NothingOfItIsRegisteredAfterwards) {
  static decltype(verbs::Api::dereg_mr) deregister;
  static std::function<void()> meanwhile;  // in the first call
  static std::atomic<int> calls;
  const int before = registrations();
  auto handle = register_word(0).value();
  int left = -1;
  std::thread owner;
  meanwhile = [&] {
    owner = std::thread([&] {
      handle.reset();
      left = registrations();
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  };
  calls = 0;
  deregister = std::exchange(verbs.mutable_api().dereg_mr, [](ibv_mr* mr) {
    if (++calls == 1) meanwhile();
    return deregister(mr);
  });
  EXPECT_EQ(recovery_of(*sender).standby().give_way(nullptr, false), Room::kMade);
  owner.join();
  EXPECT_LE(left, before) << "the rail's tables may be gone by then, too";
}

TEST_F(ScarceMemory, HandlesEnd_NothingIsRegisteredOnTheStandbyRail) {
  const int before = registrations();
  auto first = register_word(0).value();
  const auto second = register_word(1).value();
  EXPECT_EQ(registrations(), before + 4);
  first.reset();
  EXPECT_EQ(registrations(), before + 2);
}

TEST_F(ScarceMemory, RegistrationFailsForAnotherReason_NothingGivesWay) {
  verbs.fail_call(fake_verbs::Call::kRegMr, EINVAL);
  EXPECT_FALSE(register_word(0).has_value());
  EXPECT_TRUE(recovery_of(*sender).has_queue_pair(1));
}

// Though the active rail has returned: what came may have to be counted.
TEST_F(ScarceQueuePairs, StandbyPairHasCarriedData_IsKept) {
  lose_first_rail();
  exchange({8});
  set_port('s', 0, true);
  ASSERT_TRUE(returns(*sender, 0) && returns(*receiver, 0));
  exchange({8});
  Recovery& recovery = recovery_of(*receiver);
  for (const bool if_busy : {false, true}) {
    EXPECT_EQ(recovery.standby().give_way(nullptr, if_busy), Room::kNone);
  }
  EXPECT_FALSE(contains(recovery.state_text(), "fake_r1")) << recovery.state_text();
}

// Firmware may not answer for it.
TEST_F(ScarceQueuePairs, StandbyPairIsLost_IsNotDestroyed) {
  set_port('s', 1, false);
  EXPECT_TRUE(poll_until([&] { return contains(state_of_sender(), "fake_s1"); }));
  EXPECT_EQ(recovery_of(*sender).standby().give_way(nullptr, false), Room::kNone);
  EXPECT_TRUE(recovery_of(*sender).has_queue_pair(1));
}

TEST_F(ScarceQueuePairs, PeerHasGivenThePairUp_GivesWayHereToo) {
  EXPECT_EQ(recovery_of(*sender).standby().give_way(nullptr, false), Room::kMade);
  Recovery& there = recovery_of(*receiver);
  EXPECT_TRUE(poll_until([&] { return contains(there.state_text(), "fake_r1"); }));
  EXPECT_TRUE(poll_until([&] { return there.standby().give_way(nullptr, false) == Room::kMade; }));
  EXPECT_FALSE(there.has_queue_pair(1));
}

TEST(ScarceQueuePairsOfTwoRails, OneCannotBeDestroyed_TheNextGivesWay) {
  RailsPair pair(1, 2);
  Recovery& recovery = pair.recovery_of(*pair.sender);
  pair.verbs.fail_call(fake_verbs::Call::kDestroyQp, EIO);
  EXPECT_EQ(recovery.standby().give_way(nullptr, false), Room::kMade);
  EXPECT_TRUE(recovery.has_queue_pair(1));
  EXPECT_FALSE(recovery.has_queue_pair(2));
}

// Both have been given back with the queue pair, so that a job has what one without standby rails
// has. The data path may be polling.
TEST_F(ScarceMemory, StandbyPairGivesWay_SoDoItsCompletionQueueAndItsTables) {
  std::atomic<bool> ends{false};
  const auto before = verbs.live();
  std::thread other([&] {
    Room room = Room::kNone;
    while (room != Room::kMade && !ends)
      room = recovery_of(*sender).standby().give_way(nullptr, false);
    ends = true;
  });
  EXPECT_TRUE(poll_until([&] { return ends.load(); }));
  ends = true;
  other.join();
  const auto after = verbs.live();
  EXPECT_EQ(after.qps, before.qps - 1);
  EXPECT_EQ(after.cqs, before.cqs - 1);
  EXPECT_EQ(after.mrs, before.mrs - 1);
  exchange({8, 1 << 20});
}

// As where its thread does not run.
TEST_F(ScarceMemory, DataPathDoesNotLeaveTheCompletionQueue_GoesWithTheConnection) {
  const int before = verbs.live().cqs;
  {
    const CompletionQueues::Use polling(recovery_of(*sender).queues());
    EXPECT_EQ(recovery_of(*sender).standby().give_way(nullptr, false), Room::kMade);
    EXPECT_TRUE(polling.has(1));
  }
  EXPECT_EQ(verbs.live().cqs, before);
  EXPECT_FALSE(CompletionQueues::Use(recovery_of(*sender).queues()).has(1));
  exchange({8, 1 << 20});
}

TEST_F(ScarceMemory, HcaFailsToDestroyTheCompletionQueue_GoesWithTheConnection) {
  const int before = verbs.live().cqs;
  verbs.fail_call(fake_verbs::Call::kDestroyCq, EBUSY);
  EXPECT_EQ(recovery_of(*sender).standby().give_way(nullptr, false), Room::kMade);
  EXPECT_EQ(verbs.live().cqs, before);
  exchange({8, 1 << 20});
  sender.reset();
  EXPECT_EQ(verbs.live().cqs, before - 2);
}

// Flushes over a rail that stands by.
struct ScarceQueuePairsOfFlushes : ScarceQueuePairs {
  ScarceQueuePairsOfFlushes() {
    EXPECT_TRUE(flushes.add_rail(1, /*stands_by=*/true));
    flushes.note_data(1);
  }

  void flush() { EXPECT_TRUE(flushes.post(buffer.bytes.data(), *buffer.memory, &request)); }

  const Buffer buffer = receiver_buffer(64);
  Request* request = nullptr;
  Flushes flushes{*receiver};
};

TEST_F(ScarceQueuePairsOfFlushes, RailWasGivenBack_NoneIsMadeThere) {
  ASSERT_EQ(recovery_of(*receiver).standby().give_way(nullptr, false), Room::kMade);
  const int before = verbs.live().qps;
  flush();
  EXPECT_EQ(verbs.live().qps, before);
}

// The fake aborts where a CQ is destroyed that a QP uses.
TEST_F(ScarceQueuePairsOfFlushes, OneIsOnTheRail_ItsCompletionQueueIsKept) {
  flush();
  receiver->connection().link().count_completed();
  const auto before = verbs.live();
  ASSERT_EQ(recovery_of(*receiver).standby().give_way(nullptr, false), Room::kMade);
  EXPECT_EQ(verbs.live().cqs, before.cqs);
  EXPECT_EQ(verbs.live().mrs, before.mrs - 2) << "a buffer and the tables";
  EXPECT_TRUE(CompletionQueues::Use(recovery_of(*receiver).queues()).has(1));
}

// By two threads.
TEST(ScarceQueuePairsOfTwoRails, BothPairsOfOneRailGiveWayAtOnce_WhatElseItHasIsGivenBackOnce) {
  RailsBed bed(1, 2);
  bed.receiver_rails.standby.pop_back();
  bed.make();
  Recovery& recovery = bed.recovery_of(*bed.receiver);
  ASSERT_TRUE(recovery.withdraw_rail(1, ENOMEM));
  const auto before = bed.verbs.live();
  bed.verbs.on_destroy([&](const char* call) {
    const auto both = [&] { return !recovery.has_queue_pair(1) && !recovery.has_queue_pair(2); };
    EXPECT_TRUE(call != std::string("destroy_qp") || wait_for(both));
  });
  std::atomic<int> made{0};
  const auto give_way = [&] {
    EXPECT_TRUE(
        wait_for([&] { return recovery.standby().give_way(nullptr, false) == Room::kMade; }));
    ++made;
  };
  std::thread one(give_way), other(give_way);
  EXPECT_TRUE(bed.poll_until([&] { return made == 2; }));
  one.join();
  other.join();
  bed.verbs.on_destroy([](const char*) {});
  EXPECT_EQ(bed.verbs.live().cqs, before.cqs - 1);
  EXPECT_EQ(bed.verbs.live().mrs, before.mrs - 1);
}

// More connections that stand by on rail 1.
struct ManyScarceQueuePairs : ScarceQueuePairs {
  void add_connections(int count) {
    for (int i = 0; i < count; ++i) {
      senders.push_back(std::move(sender));
      receivers.push_back(std::move(receiver));
      make();
    }
    senders.push_back(std::move(sender));
  }
  auto standby_pairs() {
    return std::ranges::count_if(
        senders, [&](const auto& one) { return recovery_of(*one).has_queue_pair(1); });
  }

  std::vector<std::unique_ptr<SendComm>> senders;
  std::vector<std::unique_ptr<ReceiveComm>> receivers;
};

TEST_F(ManyScarceQueuePairs, LackDoesNotEnd_SixteenGiveWayAtMost) {
  add_connections(17);
  limit("fake_s1", 0);
  EXPECT_FALSE(create_later().has_value());
  EXPECT_EQ(standby_pairs(), 2);
}

// Each standby pair that gives way frees little of what a large buffer needs.
TEST_F(ManyScarceQueuePairs, BufferLacksMuch_MoreGiveWayTheLargerItIs) {
  add_connections(34);
  const std::vector<char> memory(1 << 16);
  Registrar registrar{shared(options.memory)};
  for (const size_t bytes : {memory.size(), size_t{8}}) {
    verbs.fail_call(fake_verbs::Call::kRegMr, ENOMEM, /*skip=*/0, /*times=*/17);
    const MemoryRegion region{reinterpret_cast<uintptr_t>(memory.data()), bytes};
    const auto registered =
        registrar.register_memory(senders.back()->connection().registration_scope(), region);
    EXPECT_EQ(registered.has_value(), bytes > 8);
  }
}

// What was given up for nothing is warned of, too.
TEST_F(ManyScarceQueuePairs, NobodyPollsTheirConnections_NoMoreAreAskedAfterASecond) {
  add_connections(20);
  for (const auto& one : senders) one->connection().link().count_posted();
  limit("fake_s1", 0);
  EXPECT_FALSE(create_later().has_value());
  EXPECT_GE(std::ranges::count_if(
                senders, [&](const auto& one) { return !recovery_of(*one).is_given_up(1); }),
            8);
  EXPECT_THAT(log.warnings("Standby rails give way"), testing::SizeIs(1));
}

TEST_F(ManyScarceQueuePairs, AnotherHcaLacks_OneGivesWayInVainAtMost) {
  add_connections(2);
  const EndRails other{{open_port("fake_s7", 40)}, {}};
  limit("fake_s7", 0);
  const auto fails = [&] {
    return !SendComm::create(other, shared(options.connection), watcher.get(), {}).has_value();
  };
  EXPECT_TRUE(fails());
  EXPECT_EQ(standby_pairs(), 2);
  verbs.fail_call(fake_verbs::Call::kCreateQp, EAGAIN, /*skip=*/0, /*times=*/100);
  EXPECT_TRUE(fails());
  EXPECT_EQ(standby_pairs(), 2) << "the limit is that of its HCA";
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

  RecordedLog log;
};

// The other end of the sender's standby pair is on the receiver's only rail, whose HCA then lacks a
// queue pair for the flush.
TEST_F(LeanConnections, FlushLacksAQueuePair_TheConnectionsOwnStandbyPairGivesWay) {
  for (const size_t qps : {3, 2}) {
    verbs.config("fake_r0").max_qps = qps;
    receiver_rails.standby.clear();
    make();
    EXPECT_EQ(recovery_of(*receiver).has_queue_pair(1), qps == 3);
    exchange({8, 1 << 20});
    const auto is_gone = [this](auto& comm) {
      return contains(recovery_of(*comm).state_text(), "errno 12), not used again");
    };
    EXPECT_TRUE(poll_until([&] { return qps == 3 || (is_gone(sender) && is_gone(receiver)); }))
        << recovery_of(*sender).state_text() << recovery_of(*receiver).state_text();
    EXPECT_EQ(end_of(*receiver).rails, 1);
    sender.reset();
    receiver.reset();
  }
}

// Before the hello, between hello and reply, and once both ends are connected; there at either.
TEST_F(LeanConnections, StandbyPairGivesWayDuringTheHandshake_TheConnectionGoesOnAndBothEndsKnow) {
  for (const int stage : {0, 1, 2, 3}) {
    create_sender();
    if (stage == 0) EXPECT_TRUE(sender->give_up_standby(nullptr));
    create_receiver();
    EXPECT_TRUE(receiver->connect(end_of(*sender)).value());
    if (stage == 1) EXPECT_TRUE(sender->give_up_standby(nullptr));
    EXPECT_TRUE(sender->connect(end_of(*receiver)).value());
    if (stage == 2) EXPECT_TRUE(sender->give_up_standby(nullptr));
    if (stage == 3) EXPECT_TRUE(receiver->give_up_standby(nullptr));
    EXPECT_FALSE(stage < 3 && sender->give_up_standby(nullptr)) << "the active pair stays";
    keep_links();
    exchange({8, 1 << 20});
    const auto text = [&](bool at_lacking_end) {
      const bool at_sender = at_lacking_end == (stage < 3);
      return at_sender ? recovery_of(*sender).state_text() : recovery_of(*receiver).state_text();
    };
    const std::string lack = "the rail was given up for lack of queue pairs";
    EXPECT_TRUE(poll_until([&] { return contains(text(false), "reports: " + lack); }))
        << stage << text(false);
    EXPECT_TRUE(contains(text(true), " (" + lack)) << stage << text(true);
    sender.reset();
    receiver.reset();
  }
}

// The pair is then on no rail.
TEST_F(LeanConnections, ReceiverGoesWithoutItsStandbyRail_NoOtherPortIsNamedOrCounted) {
  verbs.config("fake_r1").max_qps = 0;
  make();
  const auto there = [&] { return recovery_of(*sender).state_text(); };
  EXPECT_TRUE(contains(recovery_of(*receiver).state_text(), ", fake_r1:1 <-> "));
  EXPECT_TRUE(poll_until([&] { return contains(there(), ", fake_s1:1 <-> "); })) << there();
  EXPECT_TRUE(contains(there(), " <-> vm (unnamed) is lost (")) << there();
  EXPECT_EQ(recovery_of(*receiver).counters(0).losses.load(), 0u);
}

// What an HCA states is read when it is opened.
TEST(ShortQueues, SeveralPairs_AreAsDeepAsEachHcaAllows) {
  for (const int most : {200, 300, 16384}) {
    CommPair pair;
    auto config = fake_verbs::HcaConfig::infiniband("fake_short", 9);
    config.max_work_requests = most;
    const EndRails rails{{pair.open(pair.verbs.add_hca(config))}, {}};
    pair.options.connection.qps_per_connection = 2;
    const auto connection = shared(pair.options.connection);
    auto sender = SendComm::create(rails, connection, pair.watcher.get(), {}).value();
    ASSERT_TRUE(sender->prepare().value());
    auto receiver =
        ReceiveComm::create(rails, connection, pair.watcher.get(), end_of(*sender)).value();
    EXPECT_EQ(pair.verbs.queue_pairs()[qp_number(*sender)].max_send_wr, std::min(most, 255));
    EXPECT_EQ(pair.verbs.queue_pairs()[qp_number(*receiver)].max_recv_wr,
              std::min(most / 64 * 64, 384));
  }
}

// By the HCAs that have a limit: of the work requests of a queue pair, or of queue pairs. Then the
// active pairs, the rails of both ends, the depths of the first pair, and what the ends say of the
// last one. Standby rails make no queue deeper.
TEST_F(LeanConnections, RailLacks_TheActivePairIsMadeAndOthersAreLeftOut) {
  const struct {
    std::vector<std::string> hcas;
    int work_requests;
    size_t qps;
    int active, rails, peer_rails;
    uint32_t sends, receives;
    std::string second;
  } cases[] = {
      {{"fake_s0", "fake_r0"}, 200, 9, 1, 2, 2, 127, 192, ""},
      {{"fake_r0"}, 16384, 2, 1, 2, 2, 127, 192, ""},
      {{"fake_r1"}, 16384, 0, 1, 2, 1, 127, 192, "errno 12), not used again"},
      {{"fake_s1", "fake_r1"}, 16384, 0, 1, 1, 1, 127, 192, ""},
  };
  for (const auto& one : cases) {
    for (const std::string& hca : one.hcas) {
      verbs.config(hca).max_work_requests = one.work_requests;
      verbs.config(hca).max_qps = one.qps;
    }
    options.connection.qps_per_connection = one.active;
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
