#include "transport/data/watcher.h"

#include <gtest/gtest.h>

#include "tests/unit/transport/comm_pair.h"

namespace gdr::transport {
namespace {

// The thread may be about to sleep without a limit while this one stops it.
TEST(Watcher, StoppedRightAfterALinkIsAdded_Ends) {
  for (int i = 0; i < 500; ++i) {
    int fds[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    UniqueFd other(fds[1]);
    auto link = std::make_shared<PeerLink>(FrameChannel(UniqueFd(fds[0])), "a <-> b", "sender");
    auto watcher = Watcher::start(std::chrono::seconds(0)).value();
    watcher->add(link, {});
    watcher->remove(link.get());
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
  other->connection().keep_link(FrameChannel(UniqueFd(fds[0])), "sender");

  pair.verbs.raise_event("fake_a", IBV_EVENT_QP_FATAL, pair.verbs.find(qp_number(*pair.sender)));
  ASSERT_TRUE(wait_for([&] { return pair.sender->connection().failed(); }));
  EXPECT_EQ(failure_of(*pair.sender).code, Code::kSystem);
  EXPECT_TRUE(contains(failure_of(*pair.sender).text, "fake_a")) << failure_of(*pair.sender).text;
  EXPECT_FALSE(other->connection().failed());
  // The peer's HCA is well; it learns of the failure over the socket.
  EXPECT_TRUE(wait_for([&] { return pair.receiver->connection().failed(); }));
  EXPECT_EQ(failure_of(*pair.receiver).code, Code::kRemote);
}

TEST(Watcher, DeviceFatal_FailsEveryConnectionOfTheHca) {
  CommPair pair;
  pair.verbs.raise_event("fake_b", IBV_EVENT_DEVICE_FATAL, nullptr);
  ASSERT_TRUE(wait_for([&] { return pair.receiver->connection().failed(); }));
  EXPECT_TRUE(contains(failure_of(*pair.receiver).text, "fake_b"));
}

// The HCA retries; a link that flaps must not end a job.
TEST(Watcher, PortGoesDown_FailsNothing) {
  CommPair pair;
  pair.verbs.raise_event("fake_a", IBV_EVENT_PORT_ERR, nullptr, 1);
  pair.verbs.raise_event("fake_b", IBV_EVENT_DEVICE_FATAL, nullptr);
  ASSERT_TRUE(wait_for([&] { return pair.receiver->connection().failed(); }));
  pair.exchange(0);
  EXPECT_FALSE(contains(failure_of(*pair.sender).text, "fake_a:1 reports"));
}

}  // namespace
}  // namespace gdr::transport
