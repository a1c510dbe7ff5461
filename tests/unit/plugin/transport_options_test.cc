#include "plugin/transport_options.h"

#include <gtest/gtest.h>

#include "plugin/config/load.h"

namespace gdr::plugin {
namespace {

transport::TransportOptions options_of(const config::Environment& environment) {
  Result<transport::TransportOptions> options =
      make_transport_options(config::load(environment, nullptr));
  EXPECT_TRUE(options.has_value());
  return options ? *options : transport::TransportOptions{};
}

TEST(TransportOptions, Defaults_AreHandedOver) {
  const transport::TransportOptions options = options_of({});
  EXPECT_EQ(options.connect_retries, 34);
  EXPECT_EQ(options.connect_retry_pause, std::chrono::milliseconds(100));
  EXPECT_FALSE(options.subnet_aware_routing);
  EXPECT_EQ(options.subnet_prefix_bits, 24);
  EXPECT_TRUE(options.connection.failover);
  EXPECT_FALSE(options.connection.service_level.has_value()) << "which is not 0";
  EXPECT_FALSE(options.connection.traffic_class.has_value());
}

TEST(TransportOptions, Variables_AreHandedOver) {
  const transport::TransportOptions options = options_of({{"NCCL_SOCKET_RETRY_CNT", "3"},
                                                          {"NCCL_SOCKET_RETRY_SLEEP_MSEC", "250"},
                                                          {"NCCL_IB_SUBNET_AWARE_ROUTING", "1"},
                                                          {"NCCL_IB_SUBNET_PREFIX_LEN", "16"},
                                                          {"GDR_NCCL_FAILOVER", "0"},
                                                          {"NCCL_IB_SL", "0"},
                                                          {"NCCL_IB_TC", "106"}});
  EXPECT_EQ(options.connect_retries, 3);
  EXPECT_EQ(options.connect_retry_pause, std::chrono::milliseconds(250));
  EXPECT_TRUE(options.subnet_aware_routing);
  EXPECT_EQ(options.subnet_prefix_bits, 16);
  EXPECT_FALSE(options.connection.failover);
  EXPECT_EQ(options.connection.service_level, 0);
  EXPECT_EQ(options.connection.traffic_class, 106);
}

// NCCL sends through another rank's process over NVLink (PXN), unless that is disabled.
TEST(MayRelay, SeveralGpusWithOrWithUnknownNvlinks_OnlyWhilePxnIsEnabled) {
  config::Options options;
  topology::Machine machine;
  machine.gpus.resize(1);
  EXPECT_FALSE(may_relay(options, machine));
  machine.gpus.resize(2);
  EXPECT_TRUE(may_relay(options, machine)) << "NVLinks are unknown";
  machine.gpu_links_known = true;
  EXPECT_FALSE(may_relay(options, machine)) << "no NVLink";
  machine.gpus[1].nvlinks.resize(1);
  EXPECT_TRUE(may_relay(options, machine));
  options.pxn_disable = true;
  EXPECT_FALSE(may_relay(options, machine));
}

}  // namespace
}  // namespace gdr::plugin
