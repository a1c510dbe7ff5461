#include "plugin/bar1_room.h"

#include <gmock/gmock.h>

#include "plugin/config/load.h"

namespace gdr::plugin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kMib = uint64_t{1} << 20;
constexpr uint64_t kDefault = 2 * 2 * (4 * kMib + 4800 * 1024);

topology::Gpu gpu_with(uint64_t free) {
  topology::Gpu gpu;
  gpu.bdf = topology::Bdf{0, 0x1a, 0, 0};
  gpu.bar1 = topology::Bar1{256 * kMib, free};
  return gpu;
}

TEST(Bar1Room, LeastOfCommunicator_FollowsTheSettings) {
  struct Case {
    config::Environment environment;
    uint64_t bytes;
  };
  const Case cases[] = {
      {{}, kDefault},
      {{{"NCCL_BUFFSIZE", "16777216"}}, kDefault + 4 * 12 * kMib},
      {{{"NCCL_NET_GDR_READ", "1"}}, kDefault},
      {{{"NCCL_NET_GDR_READ", "0"}}, kDefault / 2},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(least_of_communicator(config::load(one.environment, nullptr)), one.bytes);
  }
}

TEST(Bar1Room, FreeBar1_IsEnoughOrAWarningWithTheNumbers) {
  topology::Machine machine;
  EXPECT_FALSE(short_bar1(machine, {}).has_value());
  machine.gpus = {topology::Gpu{}, gpu_with(kDefault)};
  EXPECT_FALSE(short_bar1(machine, {}).has_value()) << "unknown, and just enough";
  machine.gpus.push_back(gpu_with(kDefault - 1));
  std::optional<Bar1Shortage> seen = short_bar1(machine, {});
  ASSERT_TRUE(seen.has_value());
  EXPECT_EQ(seen->finding.severity, Severity::kWarning);
  EXPECT_FALSE(seen->withheld) << "other processes may have seen more";
  EXPECT_THAT(to_string(seen->finding),
              AllOf(HasSubstr("GPU 0000:1a:00.0"), HasSubstr("34 MiB of its BAR1 of 256 MiB"),
                    HasSubstr("need 35 MiB at least"), HasSubstr("NCCL_NET_GDR_READ=0")));
  machine.gpus.push_back(gpu_with(0));
  machine.gpus.back().bar1->bytes = kDefault - 1;
  seen = short_bar1(machine, {});
  ASSERT_TRUE(seen.has_value());
  EXPECT_TRUE(seen->withheld) << "the same for all processes, whatever another GPU has";
  EXPECT_THAT(seen->finding.text, HasSubstr("is not offered to NCCL"));
  machine.gpus.back().bar1->bytes = 0;
  EXPECT_FALSE(short_bar1(machine, {})->withheld) << "unknown";
  machine.gpus.pop_back();
  machine.gpus.back().c2c_links = 10;
  EXPECT_FALSE(short_bar1(machine, {}).has_value()) << "C2C needs no BAR1";
}

}  // namespace
}  // namespace gdr::plugin
