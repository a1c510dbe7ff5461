#include "transport/data/peer_link.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

#include "base/log.h"

namespace gdr::transport {
namespace {

std::string g_warnings;

class PeerLinkTest : public testing::Test {
 protected:
  void SetUp() override {
    int fds[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    here_ = std::make_unique<PeerLink>(FrameChannel(UniqueFd(fds[0])), "a <-> b", "sender");
    there_ = std::make_unique<PeerLink>(FrameChannel(UniqueFd(fds[1])), "b <-> a", "receiver");
    g_warnings.clear();
    log::set_sink([](log::Level, unsigned long, const char*, int, const char* text) {
      g_warnings += std::string(text) + "\n";
    });
  }
  void TearDown() override { log::set_sink(nullptr); }
  static void wait_out_grace(PeerLink& link) {
    std::this_thread::sleep_until(link.deadline());
    link.on_tick(std::chrono::seconds(0));
  }
  // A request is posted, and nothing moves for longer than the watchdog allows.
  void stall() {
    here_->count_posted();
    here_->on_tick(std::chrono::seconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(1050));
    here_->on_tick(std::chrono::seconds(1));
  }
  std::unique_ptr<PeerLink> here_;
  std::unique_ptr<PeerLink> there_;
};

TEST_F(PeerLinkTest, PeerDies_FailsAfterGrace) {
  there_.reset();
  EXPECT_FALSE(here_->on_readable());
  here_->on_tick(std::chrono::seconds(0));
  EXPECT_FALSE(here_->failed()) << "completions may still be unread";
  wait_out_grace(*here_);
  ASSERT_TRUE(here_->failed());
  EXPECT_EQ(here_->failure().code, Code::kRemote);
  EXPECT_NE(here_->failure().text.find("died"), std::string::npos);
}

TEST_F(PeerLinkTest, PeerCloses_TextNamesOrderlyClose) {
  there_->send_bye();
  there_.reset();
  EXPECT_FALSE(here_->on_readable());
  wait_out_grace(*here_);
  ASSERT_TRUE(here_->failed());
  EXPECT_EQ(here_->failure().text.find("died"), std::string::npos);
  EXPECT_NE(here_->failure().text.find("closed"), std::string::npos);
}

TEST_F(PeerLinkTest, PeerFails_ReasonArrivesHere) {
  there_->fail_link(Error{Code::kSystem, "cable chewed by a rabbit"}, true);
  EXPECT_TRUE(here_->on_readable());
  ASSERT_TRUE(here_->failed());
  EXPECT_NE(here_->failure().text.find("rabbit"), std::string::npos);
}

TEST_F(PeerLinkTest, PeerAsksHowMemoryIsRegistered_IsAnswered) {
  auto asked = std::make_shared<RegistrationAgreement>(/*stages=*/true);
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
  PeerLink link(FrameChannel(UniqueFd(fds[0])), "a <-> b", "sender", asked);
  asked->open(false, [&](uint32_t flags) { link.send_memory(flags); });
  FrameChannel peer{UniqueFd(fds[1])};
  const wire::Memory question{wire::kMemoryAsks, 0};
  peer.queue(wire::FrameKind::kMemory, &question, sizeof(question));
  ASSERT_TRUE(peer.flush().value());
  EXPECT_TRUE(link.on_readable());
  const std::optional<Frame> answer = peer.receive().value();
  ASSERT_TRUE(answer.has_value() && answer->memory().has_value());
  EXPECT_EQ(answer->memory()->flags, wire::kMemoryAnswers | wire::kMemoryStages);
  EXPECT_EQ(asked->peer_stages(), false);
}

TEST_F(PeerLinkTest, PeerSendsFlagsOfAnotherVersion_FailsTheLink) {
  there_->send_memory(wire::kMemoryFlags + 1);
  EXPECT_TRUE(here_->on_readable());
  ASSERT_TRUE(here_->failed());
  EXPECT_NE(here_->failure().text.find("unexpected frame"), std::string::npos);
}

TEST_F(PeerLinkTest, SecondFailure_DoesNotReplaceTheFirst) {
  here_->fail_link(Error{Code::kSystem, "first"}, false);
  here_->fail_link(Error{Code::kSystem, "second"}, false);
  EXPECT_EQ(here_->failure().text, "first");
}

TEST_F(PeerLinkTest, Watchdog_NoProgress_DumpsBothEndsOnce) {
  here_->count_posted();
  here_->on_tick(std::chrono::seconds(1));
  EXPECT_EQ(g_warnings, "");
  std::this_thread::sleep_for(std::chrono::milliseconds(1050));
  here_->on_tick(std::chrono::seconds(1));
  here_->on_tick(std::chrono::seconds(1));
  EXPECT_TRUE(there_->on_readable());
  EXPECT_TRUE(here_->on_readable());
  EXPECT_NE(g_warnings.find("sender posted 1 completed 0"), std::string::npos) << g_warnings;
  EXPECT_NE(g_warnings.find("the peer reports: receiver posted 0"), std::string::npos)
      << g_warnings;
  EXPECT_EQ(g_warnings.find("no progress"), g_warnings.rfind("no progress"));
}

TEST_F(PeerLinkTest, Watchdog_ThreadInsideTheDriver_IsNamed) {
  CopyMonitor::DriverCall in_driver(here_->copies());
  stall();
  EXPECT_NE(g_warnings.find("inside a copy call of the CUDA driver"), std::string::npos)
      << g_warnings;
}

TEST_F(PeerLinkTest, Watchdog_ThreadOnlyPassesThroughTheDriver_IsNotBlamed) {
  { CopyMonitor::DriverCall earlier(here_->copies()); }
  here_->count_posted();
  here_->on_tick(std::chrono::seconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(1050));
  CopyMonitor::DriverCall just_now(here_->copies());
  here_->on_tick(std::chrono::seconds(1));
  EXPECT_NE(g_warnings.find("no progress"), std::string::npos);
  EXPECT_EQ(g_warnings.find("inside"), std::string::npos) << g_warnings;
}

TEST_F(PeerLinkTest, Watchdog_CopyNotComplete_IsNamed) {
  here_->copies().set_awaits_copy(true);
  stall();
  EXPECT_NE(g_warnings.find("launched but not complete"), std::string::npos) << g_warnings;
  g_warnings.clear();
  here_->count_completed();
  here_->copies().set_awaits_copy(false);
  here_->on_tick(std::chrono::seconds(1));
  stall();
  EXPECT_NE(g_warnings.find("no progress"), std::string::npos);
  EXPECT_EQ(g_warnings.find("launched but"), std::string::npos) << g_warnings;
}

TEST_F(PeerLinkTest, Watchdog_Idle_StaysQuiet) {
  here_->count_posted();
  here_->count_completed();
  std::this_thread::sleep_for(std::chrono::milliseconds(1050));
  here_->on_tick(std::chrono::seconds(1));
  here_->on_tick(std::chrono::seconds(1));
  EXPECT_EQ(g_warnings, "");
}

}  // namespace
}  // namespace gdr::transport
