// Enhanced connection establishment: ibv_query_ece and ibv_set_ece.
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/unit/softhca/configured.h"
#include "tests/unit/softhca/endpoint.h"

namespace softhca_test {
namespace {

using SetEce = Configured;

constexpr const char* kDevices = R"({"devices": [
    {"ece": {"vendor_id": "2c9", "options": "10000033"}},
    {"ece": {"vendor_id": "2c9", "options": "10000011"}},
    {"ece": {"vendor_id": "14e4", "options": "1"}}, {}]})";
constexpr uint32_t kVendor = 0x2c9;
constexpr uint32_t kOptions = 0x10000033;
constexpr uint32_t kReduced = 0x10000011;

uint32_t options_of(Endpoint& endpoint) {
  ibv_ece ece = {1, 1, 1};
  EXPECT_EQ(ibv_query_ece(endpoint.qp(), &ece), 0);
  EXPECT_EQ(ece.vendor_id, kVendor);
  EXPECT_EQ(ece.comp_mask, 0u);
  return ece.options;
}

int set_options(Endpoint& endpoint, uint32_t options) {
  ibv_ece ece = {kVendor, options, 0};
  return ibv_set_ece(endpoint.qp(), &ece);
}

TEST_F(SetEce, NotConfigured_NotSupported) {
  use(kDevices);
  Endpoint a({.device = 3});
  ibv_ece ece = {kVendor, 1, 0};
  EXPECT_EQ(ibv_set_ece(a.qp(), &ece), EOPNOTSUPP);
  EXPECT_EQ(ibv_query_ece(a.qp(), &ece), EOPNOTSUPP);
}

TEST_F(SetEce, OtherVendorOrUnknownMask_Invalid) {
  use(kDevices);
  Endpoint a;
  ibv_ece none = {};
  EXPECT_EQ(ibv_set_ece(a.qp(), &none), EOPNOTSUPP);
  ibv_ece other = {0x14e4, 1, 0};
  EXPECT_EQ(ibv_set_ece(a.qp(), &other), EINVAL);
  ibv_ece masked = {kVendor, 1, 1};
  EXPECT_EQ(ibv_set_ece(a.qp(), &masked), EINVAL);
  EXPECT_EQ(options_of(a), kOptions);
}

TEST_F(SetEce, UnsupportedOptions_AreNotAccepted) {
  use(kDevices);
  Endpoint b({.device = 1});
  ibv_ece ece = {kVendor, kOptions, 0};
  ASSERT_EQ(ibv_set_ece(b.qp(), &ece), 0);
  EXPECT_EQ(ece.options, kReduced);
  EXPECT_EQ(options_of(b), 0u) << "until ibv_modify_qp takes them";
  ASSERT_EQ(b.to_init(), 0);
  EXPECT_EQ(options_of(b), kReduced);
}

TEST_F(SetEce, OneEndOnly_NoAnswer) {
  use(kDevices);
  Endpoint a;
  Endpoint b({.device = 1});
  ASSERT_EQ(set_options(b, kReduced), 0);
  b.connect(a.address());
  a.connect(b.address());
  EXPECT_EQ(write_nothing(a), IBV_WC_RETRY_EXC_ERR);
}

TEST_F(SetEce, MoreThanAccepted_NoAnswer) {
  use(kDevices);
  Endpoint a;
  Endpoint b({.device = 1});
  ASSERT_EQ(set_options(b, kOptions), 0);
  ASSERT_EQ(set_options(a, kOptions), 0);
  b.connect(a.address());
  a.connect(b.address());
  EXPECT_EQ(write_nothing(a), IBV_WC_RETRY_EXC_ERR);
}

TEST_F(SetEce, RequiredOptionsNotInUse_NoAnswer) {
  use(R"({"devices": [
      {"ece": {"vendor_id": "2c9", "options": "3", "required": "2"}}, {}]})");
  for (uint32_t options : {0u, 1u, 2u, 3u}) {
    Endpoint a;
    Endpoint b;
    ASSERT_EQ(set_options(a, options), 0);
    ASSERT_EQ(set_options(b, options), 0);
    a.connect(b.address());
    b.connect(a.address());
    EXPECT_EQ(write_nothing(a), (options & 2) != 0 ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR)
        << options;
  }
  Pair mixed({.device = 1}, {});
  EXPECT_EQ(write_nothing(mixed.a), IBV_WC_RETRY_EXC_ERR);
}

TEST_F(SetEce, SetInRts_IsTooLate) {
  use(kDevices);
  Endpoint a;
  Endpoint b({.device = 1});
  ASSERT_EQ(set_options(b, kReduced), 0);
  b.connect(a.address());
  a.connect(b.address());
  ASSERT_EQ(set_options(a, kReduced), 0);
  EXPECT_EQ(write_nothing(a), IBV_WC_RETRY_EXC_ERR);
}

TEST_F(SetEce, Reset_OffersAllAgain) {
  use(kDevices);
  Endpoint a;
  ASSERT_EQ(set_options(a, 1), 0);
  ASSERT_EQ(a.to_init(), 0);
  EXPECT_EQ(options_of(a), 1u);
  ASSERT_EQ(a.to_state(IBV_QPS_RESET), 0);
  EXPECT_EQ(options_of(a), kOptions);
  Endpoint b({.device = 3});
  a.connect(b.address());
  b.connect(a.address());
  EXPECT_EQ(write_nothing(a), IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace softhca_test
