#include "transport/link/peer_link.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <cerrno>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/comm_pair.h"

namespace gdr::transport {
namespace {

using std::chrono::seconds;

class PeerLinkTest : public testing::Test {
 protected:
  PeerLinkTest() {
    auto sockets = local_socket_pair();
    here_ = std::make_unique<PeerLink>(FrameChannel(std::move(sockets[0])), "a <-> b", "sender");
    there_ = std::make_unique<PeerLink>(FrameChannel(std::move(sockets[1])), "b <-> a", "receiver");
  }
  void wait_out_grace(PeerLink& link) { link.on_tick(link.deadline()); }
  // Another link, whose peer is a socket. Returns that.
  UniqueFd renew_here() {
    auto sockets = local_socket_pair();
    here_ = std::make_unique<PeerLink>(FrameChannel(std::move(sockets[0])), "a <-> b", "sender");
    return std::move(sockets[1]);
  }
  static Error timed_out() { return Error{Code::kRemote, "timed out", ETIMEDOUT}; }

  RecordedLog log_;
  PeerLink::Clock::time_point now_ = PeerLink::Clock::now();
  std::unique_ptr<PeerLink> here_;
  std::unique_ptr<PeerLink> there_;
};

TEST_F(PeerLinkTest, PeerCloses_ReceiverDecidesWhenAndTextNamesOrderlyClose) {
  there_->send_bye();
  EXPECT_FALSE(here_->on_readable(now_)) << "it wakes for the bye and the end at once";
  EXPECT_TRUE(here_->peer_gone()) << "before the peer's socket is closed";
  EXPECT_FALSE(here_->peer_left());
  wait_out_grace(*here_);
  EXPECT_FALSE(here_->failed());
  EXPECT_TRUE(here_->peer_left() && here_->needs_care());
  here_->fail_gone();
  ASSERT_TRUE(here_->failed());
  EXPECT_EQ(here_->failure().text,
            "a <-> b: the peer closed the connection while it was in use; the cause is in its log, "
            "mostly another rank that failed first. Fix: look for the first NET/GDR warning of the "
            "job");
}

TEST_F(PeerLinkTest, BytesThatAreNoFrame_FailAsAProtocolError) {
  UniqueFd peer = renew_here();
  ASSERT_EQ(write(peer.get(), "GET / HTTP/1.1", 14), 14);
  EXPECT_FALSE(here_->on_readable(now_));
  ASSERT_TRUE(here_->failed());
  EXPECT_EQ(here_->failure().code, Code::kInternal);
}

// The management network is not what carries the data.
TEST_F(PeerLinkTest, SocketEndsForGood_LinkGoesOnAndAsksForProbes) {
  there_.reset();
  EXPECT_FALSE(here_->on_readable(now_));
  EXPECT_FALSE(here_->peer_gone());
  here_->on_tick(now_);
  EXPECT_FALSE(here_->deaf()) << "there may be a new socket soon";
  EXPECT_FALSE(here_->failed());
  EXPECT_TRUE(here_->probe_wanted());
  EXPECT_TRUE(here_->needs_attention());
  here_->end_probe();
  EXPECT_FALSE(here_->needs_attention());
  here_->on_tick(now_ + seconds(9));
  EXPECT_TRUE(here_->deaf());
  EXPECT_FALSE(here_->probe_wanted());
  here_->on_tick(now_ + seconds(10));
  EXPECT_TRUE(here_->probe_wanted());
  here_->on_tick(now_ + seconds(3600));
  EXPECT_FALSE(here_->failed());
}

// The peer sent bye before the network went away, and the end of its stream did not arrive.
TEST_F(PeerLinkTest, PathLostAfterBye_IsAnOrderlyClose) {
  FrameChannel peer(renew_here());
  peer.queue(wire::FrameKind::kBye, nullptr, 0);
  ASSERT_TRUE(peer.flush().value());
  EXPECT_TRUE(here_->on_readable(now_));
  here_->on_socket_end(timed_out(), now_);
  wait_out_grace(*here_);
  ASSERT_TRUE(here_->peer_left());
  here_->fail_gone();
  EXPECT_TRUE(contains(here_->failure().text, "closed")) << here_->failure().text;
}

// As by a sidecar, a NAT or a firewall that is restarted: an idle time after which something
// between ends the socket by a FIN or a reset, or drops it in silence, and how long it is away
// then.
TEST_F(PeerLinkTest, SocketEndsAndIsOpenedAgain_LinkIsAsBefore) {
  for (const seconds idle : {seconds(2), seconds(27), seconds(3600)}) {
    for (const int err : {0, ECONNRESET, ETIMEDOUT}) {
      for (const seconds outage : {seconds(0), seconds(3), seconds(600)}) {
        UniqueFd first = renew_here();
        for (seconds at{0}; at < idle; ++at) here_->on_tick(now_ += seconds(1));
        here_->query_peer();
        here_->on_socket_end(Error{Code::kRemote, "it ended", err}, now_);
        for (seconds at{0}; at < outage; ++at) here_->on_tick(now_ += seconds(1));
        EXPECT_EQ(here_->deaf(), outage != seconds(0));
        auto sockets = local_socket_pair();
        EXPECT_TRUE(here_->on_reopened(FrameChannel(std::move(sockets[0]))));
        here_->end_probe();
        for (int i = 0; i < 30; ++i) here_->on_tick(now_ += seconds(1));
        EXPECT_FALSE(here_->deaf() || here_->failed() || here_->probe_wanted());
      }
    }
  }
  EXPECT_EQ(log_.warnings().size(), 0u) << "the answer may be lost";
}

// An hour is common, and so are 5 minutes.
TEST_F(PeerLinkTest, IdleSocket_CarriesBytesWithinFiveMinutes) {
  here_->on_tick(now_);
  here_->on_tick(now_ + std::chrono::minutes(3));
  pollfd arrived{there_->fd(), POLLIN, 0};
  EXPECT_EQ(poll(&arrived, 1, 0), 0);
  here_->on_tick(now_ + std::chrono::minutes(4));
  EXPECT_EQ(poll(&arrived, 1, 0), 1);
  EXPECT_TRUE(there_->on_readable(now_));
  EXPECT_FALSE(there_->failed());
}

TEST_F(PeerLinkTest, Stall_BeginsAtTheFirstTickWithoutProgress) {
  here_->on_tick(now_);
  EXPECT_FALSE(here_->stalled_since().has_value());
  here_->count_posted();
  here_->on_tick(now_ + seconds(1));
  here_->on_tick(now_ + seconds(2));
  EXPECT_EQ(here_->stalled_since(), now_ + seconds(1));
  here_->count_posted();
  here_->count_completed();
  here_->on_tick(now_ + seconds(3));
  EXPECT_EQ(here_->stalled_since(), now_ + seconds(3));
  here_->count_completed();
  here_->on_tick(now_ + seconds(4));
  EXPECT_FALSE(here_->stalled_since().has_value());
}

TEST_F(PeerLinkTest, Query_PeerAnswersWithItsState) {
  here_->query_peer();
  EXPECT_TRUE(there_->on_readable(now_));
  EXPECT_TRUE(here_->on_readable(now_));
  ASSERT_EQ(log_.warnings().size(), 1u);
  EXPECT_TRUE(contains(log_.warnings()[0], "the peer reports: receiver posted 0 completed 0"))
      << log_.warnings()[0];
}

TEST_F(PeerLinkTest, StateThatNobodyAskedFor_IsNotLogged) {
  FrameChannel peer(renew_here());
  peer.queue_text(wire::FrameKind::kState, "receiver posted 1 completed 0");
  ASSERT_TRUE(peer.flush());
  EXPECT_TRUE(here_->on_readable(now_));
  EXPECT_EQ(log_.warnings().size(), 0u);
}

}  // namespace
}  // namespace gdr::transport
