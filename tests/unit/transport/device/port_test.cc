#include "transport/device/port.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

#include "tests/fakes/verbs/fake_verbs.h"
#include "transport/device/hca.h"

namespace gdr::transport {
namespace {

using namespace std::chrono_literals;
using fake_verbs::HcaConfig;

TEST(PortState, Query_HasGrhRequirementAndMessageLimit) {
  fake_verbs::FakeVerbs verbs;
  auto config = HcaConfig::infiniband("fake_0", 7);
  auto hca = HcaContext::open(verbs.api(), verbs.add_hca(config)).value();
  fake_verbs::Port& port = verbs.port("fake_0", 1);
  auto query = [&] { return query_port_state(hca->api(), hca->context(), 1).value(); };
  EXPECT_FALSE(query().grh_required);
  EXPECT_EQ(query().max_message_bytes, 1u << 30);
  port.flags = IBV_QPF_GRH_REQUIRED;
  port.max_msg_sz = 1u << 23;
  EXPECT_TRUE(query().grh_required);
  EXPECT_EQ(query().max_message_bytes, 1u << 23);
  port.max_msg_sz = 0;
  EXPECT_EQ(query().max_message_bytes, kDefaultMessageBytes);
}

struct PortStatesTest : testing::Test {
  bool is_active() { return states.is_active(1, now); }
  void set_active(bool active) { verbs.port("fake_a", 1).active = active; }

  fake_verbs::FakeVerbs verbs;
  std::shared_ptr<HcaContext> hca =
      HcaContext::open(verbs.api(), verbs.add_hca(HcaConfig::infiniband("fake_a", 1))).value();
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

TEST_F(PortStatesTest, AnEventCameDuringTheQuery_ThePortIsQueriedAgain) {
  static decltype(verbs::Api::query_port) query;
  static std::function<void()> meanwhile;
  verbs::Api api = hca->api();
  query = std::exchange(api.query_port, [](ibv_context* context, uint8_t port, auto* attr) {
    const int err = query(context, port, attr);
    std::exchange(meanwhile, [] {})();
    return err;
  });
  PortStates asked(api, hca->context());
  meanwhile = [&] {
    set_active(false);
    asked.drop();
  };
  EXPECT_TRUE(asked.is_active(1, now));
  EXPECT_FALSE(asked.is_active(1, now));
}

TEST_F(PortStatesTest, QueryFails_ThePortIsNotActive) {
  verbs.fail_call(fake_verbs::Call::kQueryPort, EIO);
  EXPECT_FALSE(is_active());
}

}  // namespace
}  // namespace gdr::transport
