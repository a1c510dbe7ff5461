#include <gtest/gtest.h>

#include <vector>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/comm_pair.h"
#include "transport/link/failure_log.h"

namespace gdr::transport {
namespace {

using std::chrono::seconds;

// Links of one process, each with the peer's end of its socket, and a clock.
struct WatchdogTest : testing::Test {
  void add_links(int count, const PeerProcess& peer) {
    for (int i = 0; i < count; ++i) {
      auto sockets = local_socket_pair();
      links.push_back(std::make_shared<PeerLink>(FrameChannel(std::move(sockets[0])),
                                                 "link " + std::to_string(links.size()), "sender",
                                                 PeerLinkOptions{peer}));
      channels.push_back(FrameChannel(std::move(sockets[1])));
    }
  }
  void add_stalled_link() {
    add_links(1, {"b", 4711});
    links[0]->count_posted();
  }
  // The peer of the first link answers the query.
  void answer() {
    channels[0].queue_text(wire::FrameKind::kState, "receiver posted 1 completed 0");
    ASSERT_TRUE(channels[0].flush());
    EXPECT_TRUE(links[0]->on_readable(now));
  }
  void pass(int time) {
    for (int i = 0; i < time; ++i) {
      now += seconds(1);
      for (auto& link : links) link->on_tick(now);
      stalls += watchdog.check(links, now);
    }
  }
  // State queries that have arrived at all peers.
  int queries() {
    int count = 0;
    for (FrameChannel& channel : channels) {
      for (auto frame = channel.receive(); frame && frame->has_value(); frame = channel.receive()) {
        count += (*frame)->kind == wire::FrameKind::kStateQuery;
      }
    }
    return count;
  }

  RecordedLog lines;
  Watchdog watchdog{seconds(60)};
  std::vector<std::shared_ptr<PeerLink>> links;
  std::vector<FrameChannel> channels;
  Watchdog::Clock::time_point now = Watchdog::Clock::now();
  int stalls = 0;  // as check() returned
};

TEST_F(WatchdogTest, ManyLinksStall_OneLineAndOneQuery) {
  add_links(32, {"b", 1});
  add_links(32, {"c", 1});
  links[40]->count_posted();
  pass(1);
  for (auto& link : links) link->count_posted();
  pass(59);
  EXPECT_EQ(lines.lines().size(), 0u);
  pass(120);
  const std::vector<std::string> warnings = lines.warnings("no progress");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(
      contains_all(warnings[0], {"link 40: no progress for 60 s", "sender posted 2 completed 0",
                                 "63 other connections", "2 peer processes"}));
  EXPECT_EQ(queries(), 1);
  EXPECT_EQ(stalls, 1);
}

TEST_F(WatchdogTest, LinkStalls_LineNamesThePeerProcess) {
  add_stalled_link();
  add_links(1, {"b", 4711});
  pass(61);
  EXPECT_EQ(lines.warnings("no progress for 60 s with process 4711 on b; sender posted").size(),
            1u);
  EXPECT_TRUE(lines.warnings("other connection").empty());
}

// A process may have several communicators.
TEST_F(WatchdogTest, LinkOfACommunicatorStalls_LineNamesIt) {
  auto sockets = local_socket_pair();
  PeerLinkOptions options{PeerProcess{"b", 4711}};
  options.owner = "communicator 0x1234abcd";
  links.push_back(std::make_shared<PeerLink>(FrameChannel(std::move(sockets[0])), "link", "sender",
                                             std::move(options)));
  channels.push_back(FrameChannel(std::move(sockets[1])));
  links[0]->count_posted();
  pass(61);
  EXPECT_EQ(lines.warnings("sender posted 1 completed 0 for communicator 0x1234abcd").size(), 1u);
}

// A process that is stopped keeps its sockets, and does not answer.
TEST_F(WatchdogTest, LinkStalls_LineHasTheFixWhereThePeerDoesNotAnswer) {
  add_stalled_link();
  pass(130);
  ASSERT_EQ(lines.warnings().size(), 1u);
  EXPECT_TRUE(contains(lines.warnings()[0], "unless that process is stopped"));
}

TEST_F(WatchdogTest, PeerAnswers_ItsStateIsLogged) {
  add_stalled_link();
  pass(70);
  answer();
  EXPECT_EQ(lines.warnings("the peer reports: receiver posted 1").size(), 1u);
}

TEST_F(WatchdogTest, StallsAgainAfterItMovedOn_IsLoggedAgain) {
  add_stalled_link();
  pass(70);
  links[0]->count_completed();
  pass(10);
  links[0]->count_posted();
  pass(100);
  EXPECT_EQ(lines.warnings("no progress").size(), 2u);
  EXPECT_EQ(stalls, 2);
}

// The one in the line was late; another one hangs for good.
TEST_F(WatchdogTest, LoggedLinkMovesOnAndAnotherDoesNot_TheOtherIsLogged) {
  add_links(2, {"b", 1});
  links[0]->count_posted();
  pass(1);
  links[1]->count_posted();
  pass(61);
  ASSERT_EQ(lines.warnings("link 0").size(), 1u);
  links[0]->count_completed();
  pass(120);
  EXPECT_EQ(lines.warnings("link 1: no progress").size(), 1u);
  EXPECT_EQ(lines.warnings("no progress").size(), 2u);
}

TEST_F(WatchdogTest, LoggedLinkIsClosed_OthersAreLogged) {
  add_links(2, {"b", 1});
  for (auto& link : links) link->count_posted();
  pass(61);
  links.erase(links.begin());
  pass(120);
  EXPECT_EQ(lines.warnings("no progress").size(), 2u);
}

TEST_F(WatchdogTest, ProgressOrIdleOrFailed_IsQuiet) {
  add_links(3, {"b", 1});
  for (int i = 0; i < 200; ++i) {
    links[0]->count_posted();
    links[0]->count_posted();
    pass(1);
    links[0]->count_completed();
  }
  links[1]->count_posted();
  links[1]->count_completed();
  links[2]->count_posted();
  links[2]->fail_link(Error{Code::kRemote, "it failed"}, false);
  links[0].reset();
  links.erase(links.begin());
  pass(200);
  EXPECT_EQ(lines.lines().size(), 0u);
}

TEST_F(WatchdogTest, TurnedOff_IsQuiet) {
  Watchdog off(seconds(0));
  add_stalled_link();
  for (int i = 0; i < 1000; ++i) {
    now += seconds(1);
    links[0]->on_tick(now);
    off.check(links, now);
  }
  EXPECT_EQ(lines.lines().size(), 0u);
}

}  // namespace
}  // namespace gdr::transport
