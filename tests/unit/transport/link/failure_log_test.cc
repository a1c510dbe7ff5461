#include "transport/link/failure_log.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/comm_pair.h"

namespace gdr::transport {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

struct EpisodesTest : testing::Test {
  bool warns(const std::string& cause, int severity = 0) {
    return episodes.warn(cause, now, severity).has_value();
  }
  bool warns_for_good(const std::string& cause) {
    return episodes.warn(cause, now, 0, true, Episodes::kForGood).has_value();
  }

  Episodes episodes;
  Clock::time_point now = Clock::now();
};

TEST_F(EpisodesTest, CauseComesAgainAndAgain_OneWarningAMinuteCountsThoseLeftOut) {
  EXPECT_EQ(episodes.warn("a", now), 0);
  for (int i = 0; i < 59; ++i) EXPECT_FALSE(episodes.warn("a", now += seconds(1)));
  EXPECT_TRUE(warns("b")) << "each cause has its own";
  EXPECT_FALSE(episodes.warn("a", now, 0, /*counts=*/false));
  EXPECT_EQ(episodes.warn("a", now += seconds(1)), 59);
  EXPECT_EQ(episodes.warn("a", now += seconds(60)), 0);
}

TEST_F(EpisodesTest, ItGetsWorse_OneMoreWarning) {
  EXPECT_TRUE(warns("a"));
  EXPECT_TRUE(warns("a", 1));
  EXPECT_FALSE(warns("a", 1) || warns("a", 0));
  EXPECT_TRUE(warns("a", 2));
}

TEST_F(EpisodesTest, ForGood_OneWarning) {
  EXPECT_TRUE(warns_for_good("a"));
  for (int i = 0; i < 3; ++i) {
    now += hours(24);
    EXPECT_TRUE(warns("b")) << "others are forgotten";
    EXPECT_FALSE(warns_for_good("a"));
  }
}

struct FailureLogTest : testing::Test {
  std::unique_ptr<PeerLink> make_link(const std::string& description, PeerProcess peer) {
    auto sockets = local_socket_pair();
    peers.push_back(std::move(sockets[1]));
    return std::make_unique<PeerLink>(FrameChannel(std::move(sockets[0])), description, "sender",
                                      PeerLinkOptions{std::move(peer)});
  }
  // Fails a link with that peer, and logs it.
  void fail_one(const std::string& text, const PeerProcess& peer, Code code = Code::kRemote) {
    auto link = make_link("a <-> b", peer);
    link->fail_link(Error{code, "a <-> b: " + text}, false);
    fail(*link);
  }
  void fail(const PeerLink& link) { log.link_failed(link, now); }

  RecordedLog lines;
  Episodes episodes;
  FailureLog log{episodes};
  std::vector<UniqueFd> peers;
  FailureLog::Clock::time_point now = FailureLog::Clock::now();
};

TEST_F(FailureLogTest, PeerFails_ItsProcessIsNamed) {
  fail_one("it ended. Fix: look there", {"b", 4711});
  EXPECT_EQ(lines.warnings("a <-> b (process 4711 on b): it ended. Fix: look there").size(), 1u);
}

TEST_F(FailureLogTest, TwoProcesses_OneWarningEach) {
  for (const PeerProcess& peer : {PeerProcess{"b", 1}, PeerProcess{"b", 2}, PeerProcess{"c", 1}}) {
    for (int i = 0; i < 2; ++i) fail_one("it died", peer);
  }
  EXPECT_EQ(lines.lines().size(), 6u);
  EXPECT_EQ(lines.warnings().size(), 3u);
}

TEST_F(FailureLogTest, SameProcessFailsAgainMuchLater_AnotherWarning) {
  auto link = make_link("a <-> b", {"b", 1});
  link->fail_link(Error{Code::kRemote, "a <-> b: it failed"}, false);
  fail(*link);
  now += seconds(59);
  fail(*link);
  EXPECT_EQ(lines.warnings().size(), 1u);
  now += seconds(1);
  fail(*link);
  EXPECT_EQ(lines.warnings().size(), 2u);
}

// The HCA of this node concerns connections with many peers.
TEST_F(FailureLogTest, OwnFailure_OneWarningForEachReason) {
  for (const char* reason : {"mlx5_0 reports \"x\"", "mlx5_0 reports \"x\"", "posting a send"}) {
    for (uint32_t pid = 0; pid < 3; ++pid) fail_one(reason, {"b", pid}, Code::kSystem);
  }
  EXPECT_EQ(lines.warnings().size(), 2u);
}

TEST_F(FailureLogTest, PathLost_OneWarningForEachHost) {
  for (const char* host : {"b", "b", "c"}) {
    auto link = make_link(std::string("a <-> ") + host, {host, 1});
    link->on_socket_end(Error{Code::kRemote, "timed out", ETIMEDOUT}, now);
    log.path_lost(*link, now);
  }
  const std::vector<std::string> warnings = lines.warnings();
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_TRUE(
      contains_all(warnings[0], {"timed out", "The job goes on: its connections with b", "Fix: "}));
}

TEST_F(FailureLogTest, Warn_OneAMinuteForEachCauseThatCountsThoseLeftOut) {
  for (int i = 0; i < 121; ++i) {
    log.warn("a:1", "a:1 reports", "; so it fails", now);
    log.warn("b:1", "b:1 reports", "", now, kWorstOfAPort);
    now += seconds(1);
  }
  EXPECT_EQ(lines.lines().size(), 242u);
  ASSERT_EQ(lines.warnings("a:1 reports").size(), 3u);
  EXPECT_TRUE(contains(lines.warnings("a:1 reports")[1],
                       "a:1 reports; it happened 59 more times since the last warning; so it"));
  EXPECT_EQ(lines.warnings("a:1 reports; so it fails").size(), 1u);
  EXPECT_EQ(lines.warnings("b:1 reports").size(), 3u);
}

}  // namespace
}  // namespace gdr::transport
