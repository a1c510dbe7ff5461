#include "transport/device/port.h"

#include <gtest/gtest.h>

#include "tests/fakes/verbs/fake_verbs.h"
#include "transport/device/hca.h"

namespace gdr::transport {
namespace {

TEST(PortState, Query_HasGrhRequirementAndMessageLimit) {
  fake_verbs::FakeVerbs verbs;
  auto config = fake_verbs::HcaConfig::infiniband("fake_0", 7);
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

}  // namespace
}  // namespace gdr::transport
