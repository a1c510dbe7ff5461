#include "topology/slow_ports.h"

#include <gmock/gmock.h>

#include "tests/unit/topology/rails_fixture.h"

namespace gdr::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SlowPorts : public RailsFixture {
 protected:
  // HCAs of an older model with 25 Gb/s, or of a newer one with 400.
  Hca& old_hca(int number) {
    Hca& one = hca(number, 25);
    one.ids = PciIds{0x15b3, 0x1015, 1, 1};
    return one;
  }
  Hca& new_hca(int number) {
    Hca& one = hca(number, 400);
    one.ids = PciIds{0x15b3, 0x1021, 2, 2};
    return one;
  }
};

// The speed that a port reports while it is down means nothing; that of another card of its make
// does.
TEST_F(SlowPorts, PortThatIsDown_HasTheSpeedOfItsModel) {
  gpu(0), gpu(0);
  for (int i = 0; i < 2; ++i) old_hca(0);
  for (int i = 0; i < 2; ++i) new_hca(0);
  machine_.hcas[0].ports[0] = Port{1, Port::State::kDown, 40000, Port::LinkLayer::kEthernet};
  plan();
  EXPECT_THAT(why_excluded("mlx5_0"), HasSubstr("slow: 25 Gb/s"));
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_2", "mlx5_3"));
}

TEST_F(SlowPorts, LinkThatCameUpSlowly_IsARail) {
  gpu(0), gpu(0);
  for (int i = 0; i < 2; ++i) new_hca(0);
  machine_.hcas[0].ports[0].speed_mbps = 100000;
  plan();
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_0", "mlx5_1"));
}

// A management port takes no part, whether its link is up or down.
TEST_F(SlowPorts, OnlyPortOfItsModelIsDown_IsExcludedBesideOthers) {
  gpu(0), gpu(0);
  old_hca(0);
  for (int i = 0; i < 2; ++i) new_hca(0);
  plan();
  EXPECT_THAT(why_excluded("mlx5_0"), HasSubstr("slow: 25 Gb/s"));
  machine_.hcas[0].ports[0].state = Port::State::kDown;
  plan();
  EXPECT_THAT(why_excluded("mlx5_0"), HasSubstr("down, and of a model of which no port is up"));
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_1", "mlx5_2"));
}

TEST_F(SlowPorts, FastPortThatIsDown_StillMakesOthersSlow) {
  gpu(1), gpu(2);
  old_hca(1);
  new_hca(1);
  new_hca(2);
  machine_.hcas[1].ports[0] = Port{1, Port::State::kDown, 10000, Port::LinkLayer::kInfiniBand};
  plan();
  EXPECT_THAT(why_excluded("mlx5_0"), HasSubstr("slow"));
  ASSERT_EQ(plan_.rails.size(), 2u);
  EXPECT_FALSE(plan_.rails[0].usable);
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_2", "mlx5_2"));
}

TEST_F(SlowPorts, SpeedOfAVirtualFunction_IsNotThatOfItsModel) {
  gpu(1);
  const Bdf physical = *hca(1, 0).bdf;
  machine_.hcas[0].ports[0].state = Port::State::kDown;
  hca(1, 400).physical_function = physical;
  hca(1, 100);
  for (Hca& one : machine_.hcas) one.ids = PciIds{0x15b3, 0x1021, 1, 1};
  machine_.hcas[2].ids = PciIds{0x15b3, 0x1015, 2, 2};
  plan();
  EXPECT_EQ(plan_.rails.size(), 2u);
}

TEST_F(SlowPorts, PartitionsOfAGpu_CountAsOne) {
  gpu(1), gpu(2);
  for (int partition = 0; partition < 4; ++partition) {
    machine_.gpus.push_back(machine_.gpus[1]);
    machine_.gpus.back().partition = partition;
  }
  machine_.gpus.erase(machine_.gpus.begin() + 1);
  hca(1, 50), hca(0, 400);  // without the 50, 200 for each of the two cards
  plan();
  EXPECT_THAT(why_excluded("mlx5_0"), HasSubstr("slow: 50 Gb/s"));
}

}  // namespace
}  // namespace gdr::topology
