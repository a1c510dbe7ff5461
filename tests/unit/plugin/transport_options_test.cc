#include "plugin/transport_options.h"

#include <gtest/gtest.h>

namespace gdr::plugin {
namespace {

// NCCL sends through another rank's process over NVLink (PXN), unless that is disabled.
TEST(MayRelay, SeveralGpusWithNvlink_OnlyWhilePxnIsEnabled) {
  config::Options options;
  topology::Machine machine;
  machine.gpu_links_known = true;
  machine.gpus.resize(2);
  EXPECT_FALSE(may_relay(options, machine)) << "no NVLink";
  machine.gpus[1].nvlinks.resize(1);
  EXPECT_TRUE(may_relay(options, machine));
  options.pxn_disable = true;
  EXPECT_FALSE(may_relay(options, machine));
}

TEST(MayRelay, NvlinksUnknown_TakesThemAsPresentBetweenSeveralGpus) {
  config::Options options;
  topology::Machine machine;
  machine.gpus.resize(2);
  EXPECT_TRUE(may_relay(options, machine));
  machine.gpus.resize(1);
  EXPECT_FALSE(may_relay(options, machine));
}

}  // namespace
}  // namespace gdr::plugin
