#include "transport/device/port_states.h"

#include <gtest/gtest.h>

#include "tests/fakes/verbs/fake_verbs.h"
#include "transport/device/hca.h"

namespace gdr::transport {
namespace {

using namespace std::chrono_literals;

struct PortStatesTest : testing::Test {
  bool is_active() { return states.is_active(1, now); }
  void set_active(bool active) { verbs.port("fake_a", 1).active = active; }

  fake_verbs::FakeVerbs verbs;
  std::shared_ptr<HcaContext> hca =
      HcaContext::open(verbs.api(), verbs.add_hca(fake_verbs::HcaConfig::infiniband("fake_a", 1)))
          .value();
  PortStates states{hca->api(), hca->context()};
  PortStates::Time now{};
};

TEST_F(PortStatesTest, AskedAgainSoon_ThePortIsNotQueried) {
  EXPECT_TRUE(is_active());
  set_active(false);
  now += 999ms;
  EXPECT_TRUE(is_active());
  now += 1ms;
  EXPECT_FALSE(is_active());
}

TEST_F(PortStatesTest, AnEventCame_ThePortIsQueried) {
  EXPECT_TRUE(is_active());
  set_active(false);
  states.drop();
  EXPECT_FALSE(is_active());
  set_active(true);
  EXPECT_FALSE(is_active());
}

TEST_F(PortStatesTest, QueryFails_ThePortIsNotActive) {
  verbs.fail_call(fake_verbs::Call::kQueryPort, EIO);
  EXPECT_FALSE(is_active());
}

}  // namespace
}  // namespace gdr::transport
