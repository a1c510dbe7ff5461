#include "topology/slow_ports.h"

#include <gmock/gmock.h>

#include "tests/unit/topology/rails_fixture.h"

namespace gdr::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SlowPorts : public RailsFixture {};

TEST_F(SlowPorts, HalfTheSpeedAndAsNear_IsExcluded) {
  gpu(0);
  hca(0, 25), hca(0, 400), hca(0, 200), hca(0, 300);
  plan();
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_1,mlx5_3"));
  EXPECT_THAT(why_excluded("mlx5_0"), HasSubstr("25 Gb/s, where mlx5_1 has 400 Gb/s"));
  EXPECT_THAT(why_excluded("mlx5_2"), HasSubstr("200 Gb/s"));
}

TEST_F(SlowPorts, SlowerButNearer_StaysARailUnlessFourTimesSlower) {
  gpu(1), gpu(2);
  hca(1, 200), hca(2, 200), hca(0, 400);
  plan();
  ASSERT_EQ(machine_.hcas[1].name, "mlx5_0");  // by PCI address
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_0", "mlx5_1"));
  machine_.hcas[1].ports[0].speed_mbps = 25000;  // the management port on GPU0's switch
  plan();
  EXPECT_THAT(why_excluded("mlx5_0"), HasSubstr("slow"));
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_2", "mlx5_1"));
}

TEST_F(SlowPorts, UnknownSpeed_IsKept) {
  gpu(0);
  hca(0, 0), hca(0, 400);
  plan();
  EXPECT_EQ(plan_.rails.size(), 2u);
}

// The speed that a port reports while it is down means nothing; that of another card of its make
// does.
TEST_F(SlowPorts, PortThatIsDown_HasTheSpeedOfItsModel) {
  gpu(0), gpu(0);
  for (int i = 0; i < 2; ++i) hca(0, 25).ids = PciIds{0x15b3, 0x1015, 1, 1};
  for (int i = 0; i < 2; ++i) hca(0, 400).ids = PciIds{0x15b3, 0x1021, 2, 2};
  machine_.hcas[0].ports[0] = Port{1, Port::State::kDown, 40000, Port::LinkLayer::kEthernet};
  plan();
  EXPECT_THAT(why_excluded("mlx5_0"), HasSubstr("slow: 25 Gb/s"));
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_2", "mlx5_3"));
}

TEST_F(SlowPorts, LinkThatCameUpSlowly_IsARail) {
  gpu(0), gpu(0);
  for (int i = 0; i < 2; ++i) hca(0, 400).ids = PciIds{0x15b3, 0x1021, 2, 2};
  machine_.hcas[0].ports[0].speed_mbps = 100000;
  plan();
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_0", "mlx5_1"));
}

// A management port takes no part, whether its link is up or down.
TEST_F(SlowPorts, OnlyPortOfItsModelIsDown_IsExcludedBesideOthers) {
  gpu(0), gpu(0);
  hca(0, 25).ids = PciIds{0x15b3, 0x1015, 1, 1};
  for (int i = 0; i < 2; ++i) hca(0, 400).ids = PciIds{0x15b3, 0x1021, 2, 2};
  plan();
  EXPECT_THAT(why_excluded("mlx5_0"), HasSubstr("slow: 25 Gb/s"));
  machine_.hcas[0].ports[0].state = Port::State::kDown;
  plan();
  EXPECT_THAT(why_excluded("mlx5_0"), HasSubstr("down, and of a model of which no port is up"));
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_1", "mlx5_2"));
}

TEST_F(SlowPorts, FastPortThatIsDown_StillMakesOthersSlow) {
  gpu(1), gpu(2);
  hca(1, 25).ids = PciIds{0x15b3, 0x1015, 1, 1};
  hca(1, 400).ids = PciIds{0x15b3, 0x1021, 2, 2};
  hca(2, 400).ids = PciIds{0x15b3, 0x1021, 2, 2};
  machine_.hcas[1].ports[0] = Port{1, Port::State::kDown, 10000, Port::LinkLayer::kInfiniBand};
  plan();
  EXPECT_THAT(why_excluded("mlx5_0"), HasSubstr("slow"));
  ASSERT_EQ(plan_.rails.size(), 2u);
  EXPECT_FALSE(plan_.rails[0].usable);
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_2", "mlx5_2"));
}

TEST_F(SlowPorts, ReasonOfANearPort_NamesTheFasterOneAndTheGpu) {
  gpu(1);
  hca(1, 25), hca(1, 400);
  plan();
  EXPECT_EQ(why_excluded("mlx5_0"),
            "slow: 25 Gb/s, where mlx5_1 has 400 Gb/s and is as near to GPU0");
}

TEST_F(SlowPorts, ReasonOfTheOnlyNearPort_NamesTheDistance) {
  gpu(1);
  hca(1, 25), hca(0, 400);
  plan();
  EXPECT_EQ(why_excluded("mlx5_0"),
            "slow: 25 Gb/s, where mlx5_1 has 400 Gb/s at PHB, so that GPU0 gains bandwidth");
}

TEST_F(SlowPorts, OneFastPortFarFromAllGpus_ExcludesNoNearPort) {
  for (int number = 1; number <= 8; ++number) gpu(number);
  for (int number = 1; number <= 8; ++number) hca(number, 100);
  hca(0, 400);
  plan();
  EXPECT_EQ(plan_.rails.size(), 8u);
  EXPECT_THAT(why_excluded("mlx5_8"), HasSubstr("no GPU is nearest to it"));
}

TEST_F(SlowPorts, FastPortOnEachSocket_ExcludesNoNearPort) {
  for (int number = 1; number <= 4; ++number) gpu(number), gpu(number);
  for (int number = 1; number <= 4; ++number) hca(number, 100), hca(number, 100);
  hca(0, 400, 0), hca(0, 400, 1);
  plan();
  EXPECT_EQ(plan_.rails.size(), 8u);
}

TEST_F(SlowPorts, FastPortThatIsSlowerThanAllSlowOnes_ExcludesNone) {
  for (int i = 0; i < 4; ++i) gpu(0);
  for (int i = 0; i < 4; ++i) hca(0, 100);
  hca(0, 200);
  plan();
  EXPECT_EQ(plan_.rails.size(), 5u);
}

TEST_F(SlowPorts, TwoStoragePortsBesideTheOnlyRail_AreExcluded) {
  gpu(1), gpu(1);
  hca(1, 100), hca(1, 100), hca(1, 200);
  plan();
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_2", "mlx5_2"));
}

// One half of the machine has an older network, the other half a newer one.
TEST_F(SlowPorts, OlderHalfOfAMixedMachine_KeepsItsPorts) {
  for (int number : {1, 2, 3, 4}) gpu(number);
  hca(1, 100), hca(2, 100), hca(3, 400), hca(4, 400);
  plan();
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"));
}

// GPU0 loses nothing without its port of 25 Gb/s, but GPU1 has no other that is near.
TEST_F(SlowPorts, PortOfTheSameSpeed_StaysWhereItsGpuNeedsIt) {
  gpu(1), gpu(3), gpu(4);
  hca(1, 25), hca(1, 200), hca(3, 25), hca(4, 25);
  plan();
  EXPECT_THAT(why_excluded("mlx5_0"), HasSubstr("slow"));
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_1", "mlx5_2", "mlx5_3"));
}

// A bond of two ports of 100 Gb/s is one device with the speed of both.
TEST_F(SlowPorts, BondForStorage_IsExcludedBesideAFasterPort) {
  gpu(1);
  hca(1, 400);
  hca(1, 200).name = "mlx5_bond_0";
  plan();
  EXPECT_THAT(why_excluded("mlx5_bond_0"), HasSubstr("slow: 200 Gb/s"));
}

TEST_F(SlowPorts, GpuWithoutANearPort_GetsTheFastOneOnly) {
  gpu(1), gpu(3);
  hca(1, 400), hca(1, 25);
  plan();
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_0", "mlx5_0"));
  EXPECT_THAT(why_excluded("mlx5_1"), HasSubstr("slow: 25 Gb/s"));
}

TEST_F(SlowPorts, DualPortCards_AreKeptOrExcludedByTheirSum) {
  gpu(1);
  for (int card = 0; card < 2; ++card) {
    hca(1, 100).ports.push_back(Port{2, Port::State::kActive, 100000, Port::LinkLayer::kEthernet});
  }
  hca(1, 200);
  plan();
  EXPECT_EQ(plan_.rails.size(), 5u);  // 400 Gb/s of the cards, 200 of the other
  machine_.hcas[0].ports.pop_back(), machine_.hcas[1].ports.pop_back();
  plan();
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_2"));
}

TEST_F(SlowPorts, NamedPort_IsKeptWhateverItsSpeed) {
  gpu(1);
  hca(1, 25), hca(1, 400);
  options_.named = {NamedPort{"mlx5_0", -1, -1}};
  plan();
  EXPECT_EQ(plan_.rails.size(), 2u);
}

TEST_F(SlowPorts, VirtualFunctionFasterThanItsPhysicalOne_DoesNotExcludeThat) {
  gpu(1);
  const Bdf physical = *hca(1, 100).bdf;
  hca(1, 400).physical_function = physical;
  plan();
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_0"));
  EXPECT_THAT(why_excluded("mlx5_1"), HasSubstr("a virtual function of mlx5_0"));
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

TEST_F(SlowPorts, NoGpu_ExcludesNothing) {
  hca(0, 400), hca(0, 100), hca(1, 25);
  plan();
  EXPECT_EQ(plan_.rails.size(), 3u);
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
