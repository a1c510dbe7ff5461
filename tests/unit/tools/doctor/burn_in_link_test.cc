#include "tools/doctor/burn_in_link.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <sys/socket.h>

#include <future>
#include <nlohmann/json.hpp>

#include "tools/doctor/burn_in_perftest_run.h"
#include "tools/ranks/socket_io.h"

namespace gdr::tools::doctor {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

BurnInPeer peer_at(int port, int rank) {
  return {.is_local = false, .address = "127.0.0.1", .port = port, .rank = rank};
}

BurnInClock::time_point in(milliseconds later) { return BurnInClock::now() + later; }

// Meets in another thread.
std::future<Result<BurnInLink>> meeting(const BurnInPeer& peer, const Json& hello) {
  return std::async(std::launch::async, [peer, hello] {
    return BurnInLink::meet(peer, hello, BurnInClock::now() + seconds(30));
  });
}

// Both ends of a link.
struct LinkPair {
  LinkPair() {
    const int port = free_tcp_port();
    auto first = meeting(peer_at(port, 0), {{"name", "first"}});
    auto second = meeting(peer_at(port, 1), {{"name", "second"}});
    listening = std::make_unique<BurnInLink>(std::move(first.get().value()));
    connecting = std::make_unique<BurnInLink>(std::move(second.get().value()));
  }
  std::unique_ptr<BurnInLink> listening, connecting;
};

TEST(BurnInLink, Meeting_ExchangesHellos) {
  const LinkPair pair;
  EXPECT_EQ(pair.listening->hello()["name"], "second");
  EXPECT_EQ(pair.connecting->hello()["name"], "first");
}

TEST(BurnInLink, Messages_AreExchangedInOrder) {
  LinkPair pair;
  auto other = std::async(std::launch::async, [&] {
    EXPECT_EQ(pair.connecting->exchange({{"n", 1}}, in(seconds(30))).value()["n"], 10);
    EXPECT_EQ(pair.connecting->exchange({{"n", 2}}, in(seconds(30))).value()["n"], 20);
  });
  EXPECT_EQ(pair.listening->exchange({{"n", 10}}, in(seconds(30))).value()["n"], 1);
  EXPECT_EQ(pair.listening->exchange({{"n", 20}}, in(seconds(30))).value()["n"], 2);
  other.get();
}

TEST(BurnInLink, TextThatIsNoUtf8_IsSent) {
  LinkPair pair;
  auto other = std::async(std::launch::async, [&] {
    return pair.connecting->exchange({{"text", "\xff"}}, in(seconds(30)));
  });
  EXPECT_TRUE(pair.listening->exchange(Json::object(), in(seconds(30)))->contains("text"));
  EXPECT_TRUE(other.get().has_value());
}

TEST(BurnInLink, OtherMachineThatEnds_IsNewsAndAnError) {
  LinkPair pair;
  EXPECT_FALSE(pair.listening->has_news());
  pair.connecting.reset();
  while (!pair.listening->has_news()) {
  }
  const auto answer = pair.listening->exchange(Json::object(), in(seconds(30)));
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, Code::kInvalidUsage);
}

TEST(BurnInLink, SilentMachine_IsAnErrorAtTheDeadline) {
  LinkPair pair;
  const auto answer = pair.listening->exchange(Json::object(), in(milliseconds(50)));
  ASSERT_FALSE(answer.has_value());
  EXPECT_THAT(answer.error().text, HasSubstr("does not answer any more: it sends nothing"));
}

TEST(BurnInLink, NobodyComes_NamesThePortsAndTheFix) {
  const int port = free_tcp_port();
  const auto listening = BurnInLink::meet(peer_at(port, 0), Json::object(), in(milliseconds(50)));
  ASSERT_FALSE(listening.has_value());
  EXPECT_EQ(listening.error().code, Code::kInvalidUsage);
  EXPECT_THAT(listening.error().text, HasSubstr("is a loopback address"));
  const auto connecting = BurnInLink::meet(peer_at(port, 1), Json::object(), in(milliseconds(50)));
  ASSERT_FALSE(connecting.has_value());
  EXPECT_THAT(connecting.error().text, HasSubstr("Connection refused"));
}

// 192.0.2.1 is in a network for documents, which no machine has. Every machine
// can listen at 0.0.0.0.
TEST(BurnInLink, NobodyComes_SaysWhichMachineHasTheAddress) {
  const int port = free_tcp_port();
  const BurnInPeer absent{.is_local = false, .address = "192.0.2.1", .port = port, .rank = 1};
  const auto connecting = BurnInLink::meet(absent, Json::object(), in(milliseconds(50)));
  ASSERT_FALSE(connecting.has_value());
  EXPECT_THAT(connecting.error().text,
              HasSubstr("on the machine that has 192.0.2.1 (ip -4 addr), and on this one"));
  const BurnInPeer any{.is_local = false, .address = "0.0.0.0", .port = port, .rank = 0};
  const auto listening = BurnInLink::meet(any, Json::object(), in(milliseconds(50)));
  ASSERT_FALSE(listening.has_value());
  EXPECT_THAT(listening.error().text, HasSubstr("only this machine has 0.0.0.0 (ip -4 addr)"));
}

TEST(BurnInLink, PortInUse_IsAnErrorAtOnce) {
  const int port = free_tcp_port();
  const auto taken = listen_on({"127.0.0.1", static_cast<uint16_t>(port)});
  ASSERT_TRUE(taken.has_value());
  const auto link = BurnInLink::meet(peer_at(port, 0), Json::object(), in(seconds(1000)));
  ASSERT_FALSE(link.has_value());
  EXPECT_THAT(link.error().text, HasSubstr("Fix: another port, ADDRESS:PORT"));
}

TEST(BurnInLink, PortScan_IsNotTheOtherMachine) {
  const int port = free_tcp_port();
  auto first = meeting(peer_at(port, 0), Json::object());
  const HostPort address{"127.0.0.1", static_cast<uint16_t>(port)};
  for (const char* sent : {"", "GET / HTTP/1.0\r\n\r\n", "{\"hello\": 1}\n", "[]\n"}) {
    const auto scan = connect_until(address, in(seconds(30)));
    ASSERT_TRUE(scan.has_value());
    ASSERT_TRUE(write_all(scan->get(), sent).has_value());
  }
  auto second = meeting(peer_at(port, 1), {{"name", "second"}});
  EXPECT_EQ(first.get()->hello()["name"], "second");
  EXPECT_TRUE(second.get().has_value());
}

TEST(BurnInLink, OtherRelease_IsAnError) {
  const int port = free_tcp_port();
  auto first = meeting(peer_at(port, 0), Json::object());
  const auto other = connect_until({"127.0.0.1", static_cast<uint16_t>(port)}, in(seconds(30)));
  ASSERT_TRUE(write_all(other->get(), "{\"nccl_gdr_burn_in\": 99}\n").has_value());
  const auto link = first.get();
  ASSERT_FALSE(link.has_value());
  EXPECT_THAT(link.error().text, HasSubstr("install the same on both"));
}

}  // namespace
}  // namespace gdr::tools::doctor
