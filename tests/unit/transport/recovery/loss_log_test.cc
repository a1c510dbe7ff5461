// What the state of a connection shows of pairs that cannot be used, until they can be again.
#include <gtest/gtest.h>

#include "tests/unit/transport/recovery/recovery_bed.h"

namespace gdr::transport {
namespace {

using namespace std::chrono_literals;

struct RecoveryStateTest : RecoveringEnds {
  std::string state() const { return sender.recovery->state_text(); }
  // Only the sender's watcher and reviver run.
  void tick_sender() { bed.tick(sender); }
};

TEST_F(RecoveryStateTest, PairIsLost_StateHasItsCauseUntilItIsUsable) {
  bed.fail_pair(sender, 1);
  EXPECT_TRUE(contains_all(
      state(), {", fake_c:1 <-> ", "is lost (RETRY_EXC_ERR), the ends have not agreed"}));
  bed.run();
  EXPECT_TRUE(contains(state(), "(RETRY_EXC_ERR), tried again")) << state();
  bed.skip(1100ms);
  tick_sender();
  EXPECT_TRUE(contains(state(), "(RETRY_EXC_ERR), tried again")) << state();
  bed.run();
  EXPECT_EQ(state(), "");
}

TEST_F(RecoveryStateTest, PeerLostThePair_StateHasThePeersCause) {
  bed.fail_pair(receiver, 0, 0, IBV_WC_FATAL_ERR);
  bed.run();
  EXPECT_TRUE(contains(state(), "(vm reports: FATAL_ERR)")) << state();
}

TEST_F(RecoveryStateTest, PortOfTheLastRailIsDown_StateHasTheRail) {
  bed.port_event(sender, 1, IBV_EVENT_PORT_ERR);
  bed.run();
  EXPECT_TRUE(contains(state(), "(the port is down), tried again")) << state();
  bed.port_event(sender, 0, IBV_EVENT_PORT_ERR);
  EXPECT_TRUE(contains(state(), "fake_b:1: its port is down, the HCA retries")) << state();
  EXPECT_FALSE(contains(state(), "fake_d:1: its port is down")) << state();
}

}  // namespace
}  // namespace gdr::transport
