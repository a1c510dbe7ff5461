#include "transport/watch/watcher.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <thread>
#include <utility>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/comm_pair.h"

namespace gdr::transport {
namespace {

struct LinkToWatch {
  LinkToWatch() {
    auto sockets = local_socket_pair();
    // Nobody listens there any more.
    const sockaddr_storage refuses = listen_tcp(loopback_address()).value().address;
    link = std::make_shared<PeerLink>(
        FrameChannel(std::move(sockets[0])), "a <-> b", "sender",
        PeerLinkOptions{.reopen = {.to = refuses, .opens = true, .direct = true}});
    peer = FrameChannel(std::move(sockets[1]));
  }
  std::shared_ptr<PeerLink> link;
  FrameChannel peer;
};

// A watched HCA of two ports, and a link over port 1.
struct WatchedHca {
  explicit WatchedHca(bool events_fail = true)
      : watcher(Watcher::start(std::chrono::seconds(0), events_fail).value()) {
    watcher->add_hca(hca);
    watcher->add({watched.link, {{hca, {"fake_e", 1}, nullptr}}});
  }
  ~WatchedHca() { watcher->remove(watched.link.get()); }
  static fake_verbs::HcaConfig two_ports() {
    fake_verbs::HcaConfig config = fake_verbs::HcaConfig::infiniband("fake_e", 5);
    config.ports.push_back(config.ports[0]);
    return config;
  }

  fake_verbs::FakeVerbs verbs;
  std::shared_ptr<HcaContext> hca =
      HcaContext::open(verbs.api(), verbs.add_hca(two_ports())).value();
  RecordedLog log;
  LinkToWatch watched;
  std::unique_ptr<Watcher> watcher;
};

// A link that is added wakes the thread. It must not take the wake-up of the stop that follows for
// the same one, since it sleeps without a limit while there are no links.
TEST(Watcher, StoppedWhileItWakesUp_Ends) {
  for (int i = 0; i < 400; ++i) {
    auto watcher = Watcher::start(std::chrono::seconds(0)).value();
    LinkToWatch first;
    first.peer.queue_text(wire::FrameKind::kFailed, "the thread runs");
    ASSERT_TRUE(first.peer.flush());
    watcher->add({first.link});
    ASSERT_TRUE(wait_for([&] { return first.link->failed(); }));
    watcher->remove(first.link.get());
    LinkToWatch second;
    watcher->add({second.link});
    watcher->remove(second.link.get());
    const auto until = PeerLink::Clock::now() + std::chrono::microseconds(i % 50);
    while (PeerLink::Clock::now() < until) continue;
  }
}

// epoll takes no regular file (EPERM), which stands for its limit of watches here.
TEST(Watcher, EpollRefusesTheEventsOfAnHca_TheyAreReadOnceASecond) {
  RecordedLog log;
  fake_verbs::FakeVerbs verbs;
  auto* device = verbs.add_hca(fake_verbs::HcaConfig::infiniband("fake_f", 6));
  auto hca = HcaContext::open(verbs.api(), device).value();
  ibv_cq cq{};
  ibv_qp qp{};
  qp.send_cq = &cq;
  ibv_async_event event{};
  event.event_type = IBV_EVENT_QP_FATAL;
  event.element.qp = &qp;
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(std::fwrite(&event, sizeof(event), 1, file), 1u);
  std::rewind(file);
  const int pipe_end = std::exchange(hca->context()->async_fd, fileno(file));
  LinkToWatch watched;
  {
    auto watcher = Watcher::start(std::chrono::seconds(0)).value();
    watcher->add({watched.link, {{nullptr, {}, &cq}}});
    watcher->add_hca(hca);
    auto other = std::make_shared<PeerLink>(FrameChannel(UniqueFd(dup(fileno(file)))), "c", "end");
    watcher->add({other});
    watcher->remove(other.get());
    EXPECT_EQ(log.warnings("max_user_watches").size(), 1u) << "of all descriptors";
    EXPECT_TRUE(wait_for([&] { return watched.link->failed(); }));
    watcher->remove(watched.link.get());
  }
  hca->context()->async_fd = pipe_end;
  std::fclose(file);
}

// dmesg has nothing about the peer's requests.
TEST(Watcher, PeersRequestIsRefused_TheEventsTextHasCauseAndFixAtBothEnds) {
  const struct {
    ibv_event_type type;
    std::vector<std::string> texts;
  } cases[] = {{IBV_EVENT_QP_ACCESS_ERR, {"The peer wrote to memory that is not registered here"}},
               {IBV_EVENT_QP_REQ_ERR, {"What the peer sent is longer", "Fix: compare the MTU"}},
               {IBV_EVENT_QP_FATAL, {"fake_b reports", "Fix: look in dmesg"}}};
  for (const auto& [type, texts] : cases) {
    CommPair pair;
    RecordedLog log;
    pair.verbs.raise_event("fake_b", type, pair.verbs.find(qp_number(*pair.receiver)));
    ASSERT_TRUE(wait_for([&] { return pair.sender->connection().failed(); }));
    EXPECT_TRUE(contains_all(failure_of(*pair.sender).text, texts));
    ASSERT_EQ(log.warnings("fails 1 connection").size(), 1u);
    EXPECT_TRUE(contains_all(log.warnings("fails 1 connection")[0], texts));
  }
}

TEST(Watcher, FatalEventOfAQueuePair_FailsItsConnectionOnly) {
  CommPair pair;
  auto other = pair.make_sender().value();
  auto other_receiver = pair.make_receiver().value();
  ASSERT_TRUE(other->connect(end_of(*other_receiver)));
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
  UniqueFd peer(fds[1]);
  other->keep_link(FrameChannel(UniqueFd(fds[0])));

  pair.verbs.raise_event("fake_a", IBV_EVENT_QP_FATAL, pair.verbs.find(qp_number(*pair.sender)));
  ASSERT_TRUE(wait_for([&] { return pair.sender->connection().failed(); }));
  EXPECT_EQ(failure_of(*pair.sender).code, Code::kSystem);
  EXPECT_TRUE(contains(failure_of(*pair.sender).text, "fake_a")) << failure_of(*pair.sender).text;
  EXPECT_FALSE(other->connection().failed());
  // The peer's HCA is well; it learns of the failure over the socket.
  EXPECT_TRUE(wait_for([&] { return pair.receiver->connection().failed(); }));
  EXPECT_EQ(failure_of(*pair.receiver).code, Code::kRemote);
}

TEST(Watcher, FatalEventDuringAHandshake_IsNoWarning) {
  CommPair pair;
  const auto unfinished = pair.make_sender().value();
  RecordedLog log;
  pair.verbs.raise_event("fake_a", IBV_EVENT_QP_FATAL, pair.verbs.find(qp_number(*unfinished)));
  EXPECT_TRUE(wait_for([&] { return !log.lines("fake_a reports").empty(); }));
  EXPECT_TRUE(log.warnings().empty());
}

TEST(Watcher, DeviceFatal_FailsEveryConnectionOfTheHca) {
  CommPair pair;
  pair.verbs.raise_event("fake_b", IBV_EVENT_DEVICE_FATAL, nullptr);
  ASSERT_TRUE(wait_for([&] { return pair.receiver->connection().failed(); }));
  EXPECT_TRUE(contains(failure_of(*pair.receiver).text, "fake_b"));
}

TEST(Watcher, EventsMustNotFail_FatalEventIsOnlyLogged) {
  WatchedHca bed(/*events_fail=*/false);
  bed.verbs.raise_event("fake_e", IBV_EVENT_DEVICE_FATAL, nullptr);
  EXPECT_TRUE(wait_for([&] { return !bed.log.warnings("NCCL_IB_RETURN_ASYNC_EVENTS=0").empty(); }));
  // The thread has finished with the event when it answers this.
  bed.watched.peer.queue_text(wire::FrameKind::kFailed, "the peer fails");
  ASSERT_TRUE(bed.watched.peer.flush());
  ASSERT_TRUE(wait_for([&] { return bed.watched.link->failed(); }));
  EXPECT_EQ(bed.watched.link->failure().code, Code::kRemote);
}

// Both ports of an HCA are devices of their own, and share its context.
TEST(Watcher, SameHcaAddedTwice_IsQuiet) {
  Fabric fabric;
  RecordedLog log;
  fabric.watcher->add_hca(fabric.sender_device.hca);
  EXPECT_EQ(log.lines(), std::vector<std::string>{});
}

// The HCA retries; a link that flaps must not end a job.
TEST(Watcher, PortGoesDown_WarnsAndFailsNothing) {
  CommPair pair;
  RecordedLog log;
  pair.verbs.raise_event("fake_a", IBV_EVENT_PORT_ERR, nullptr, 1);
  pair.verbs.raise_event("fake_a", IBV_EVENT_PORT_ACTIVE, nullptr, 1);
  // The thread has finished with the first event when it logs the second.
  EXPECT_TRUE(wait_for([&] { return log.lines("fake_a").size() == 2; }));
  const std::vector<std::string> logged = log.lines("fake_a");
  ASSERT_EQ(logged.size(), 2u);
  EXPECT_TRUE(logged[0].starts_with("WARN ")) << logged[0];
  EXPECT_TRUE(contains_all(
      logged[0], {"fake_a:1 reports", "the HCA retries what is sent by NCCL_IB_TIMEOUT", "Fix: "}));
  EXPECT_TRUE(logged[1].starts_with("INFO ")) << logged[1];
  EXPECT_TRUE(contains(logged[1], "fake_a:1 reports")) << logged[1];
  pair.exchange(10);
  EXPECT_FALSE(pair.sender->connection().failed());
  EXPECT_FALSE(pair.receiver->connection().failed());
}

// Storage uses the other port, or nothing does: the ranks of a node open the HCAs of all of them.
TEST(Watcher, PortsFlap_OneWarningOfTheOneThatIsUsed) {
  WatchedHca bed;
  for (int i = 0; i < 30; ++i) {
    for (const int port : {2, 1})
      bed.verbs.raise_event("fake_e", IBV_EVENT_PORT_ERR, nullptr, port);
  }
  EXPECT_TRUE(wait_for([&] { return bed.log.lines("fake_e:1 reports").size() == 30; }));
  EXPECT_EQ(bed.log.lines("no connection uses this port").size(), 30u);
  EXPECT_EQ(bed.log.warnings().size(), 1u);
}

// Some kernels close the queue of events of an HCA that is removed.
TEST(Watcher, HcaReportsNothingAnyMore_IsLostOnce) {
  WatchedHca bed;
  auto* device = bed.verbs.add_hca(fake_verbs::HcaConfig::infiniband("fake_f", 6));
  auto hca = HcaContext::open(bed.verbs.api(), device).value();
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  UniqueFd ended(fds[0]);
  UniqueFd(fds[1]).reset();
  const int pipe_end = std::exchange(hca->context()->async_fd, ended.get());
  LinkToWatch link;
  bed.watcher->add({link.link, {{hca, {}, nullptr}}});
  bed.watcher->add_hca(hca);
  EXPECT_TRUE(wait_for([&] { return link.link->failed(); }));
  EXPECT_TRUE(hca->is_gone());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(bed.log.warnings("fake_f does not report events any more").size(), 1u);
  EXPECT_EQ(bed.log.lines().size(), 1u) << "the watcher looks again and again";
  EXPECT_FALSE(bed.watched.link->failed());
  bed.watcher->remove(link.link.get());
  hca->context()->async_fd = pipe_end;
}

}  // namespace
}  // namespace gdr::transport
