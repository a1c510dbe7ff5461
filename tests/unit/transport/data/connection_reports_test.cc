// What a connection shows of its rails: while it stalls, when it fails, and at its end.
#include <gtest/gtest.h>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/rails_pair.h"

namespace gdr::transport {
namespace {

struct ConnectionReportsTest : testing::Test {
  RecordedLog log;
};

TEST_F(ConnectionReportsTest, Closes_BytesOfEachRailAreLogged) {
  auto pair = std::make_unique<RailsPair>(2, 0);
  pair->exchange({8 << 20, 1 << 20});
  const std::string state = pair->sender->connection().link().state_text();
  EXPECT_TRUE(contains_all(state, {", bytes by rail: fake_s0:1 ", " fake_s1:1 "}));
  pair->sender.reset();
  EXPECT_TRUE(log.lines("NET/GDR : rail ").empty()) << "another connection is open";
  pair->receiver.reset();
  ASSERT_EQ(log.lines("NET/GDR : rail ").size(), 4u);
  EXPECT_EQ(log.lines("rail fake_s1:1: sent ").size(), 1u);
  const std::string received = log.lines("rail fake_r1:1: ").front();
  EXPECT_TRUE(contains(received, ": sent 0 bytes in 0 chunks, received ")) << received;
  EXPECT_FALSE(contains(received, "received 0 bytes")) << received;
  EXPECT_TRUE(contains(received, " chunks; 0 queue pairs lost, 0 returned")) << received;
}

// With adaptive routing, what ends a chunk brings the size of the message, and no data.
TEST(RailBytesTest, BothEndsCountTheSameOnEachRail) {
  for (bool adaptive_routing : {false, true}) {
    TransportOptions options = test_options();
    options.connection.adaptive_routing = adaptive_routing;
    RailsPair pair(2, 0, options);
    pair.exchange({8 << 20, 1 << 20, 100});
    uint64_t all = 0;
    for (uint32_t rail : {0u, 1u}) {
      const uint64_t sent = pair.recovery_of(*pair.sender).counters(rail).bytes;
      EXPECT_EQ(pair.recovery_of(*pair.receiver).counters(rail).bytes, sent) << adaptive_routing;
      all += sent;
    }
    EXPECT_EQ(all, (9u << 20) + 100);
  }
}

TEST_F(ConnectionReportsTest, OneRail_NoLines) {
  auto pair = std::make_unique<RailsPair>(1, 0);
  pair->exchange({1 << 20});
  pair->sender.reset();
  pair->receiver.reset();
  EXPECT_TRUE(log.lines(" over fake_").empty());
  EXPECT_TRUE(log.lines("NET/GDR : rail ").empty());
}

}  // namespace
}  // namespace gdr::transport
