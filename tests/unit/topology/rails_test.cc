#include "topology/rails.h"

#include <gmock/gmock.h>

#include "tests/unit/topology/rails_fixture.h"

namespace gdr::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Rails : public RailsFixture {};

TEST_F(Rails, HcaUnderEachGpusSwitch_IsItsRail) {
  for (int number : {1, 2, 3, 4}) gpu(number);
  for (int number : {1, 2, 3, 4}) hca(number);
  plan();
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(plan_.rails[i].id, i);
}

TEST_F(Rails, EqualDistances_GpuIGetsHcaI) {
  for (int i = 0; i < 4; ++i) gpu(0);
  for (int i = 0; i < 4; ++i) hca(0);
  plan();
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"));
}

TEST_F(Rails, HcaUnderTheSwitchOfTwoGpus_IsTheRailOfBoth) {
  gpu(1), gpu(1), gpu(2), gpu(2);
  hca(1), hca(2);
  plan();
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_0", "mlx5_0", "mlx5_1", "mlx5_1"));
}

TEST_F(Rails, MoreHcasThanGpus_AreDividedInBlocks) {
  gpu(0), gpu(0);
  for (int i = 0; i < 4; ++i) hca(0);
  plan();
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_0,mlx5_1", "mlx5_2,mlx5_3"));
}

TEST_F(Rails, PortsOfOneCard_GoToOneGpu) {
  gpu(1), gpu(1);
  for (int card = 0; card < 2; ++card) {
    hca(1).ports.push_back(Port{2, Port::State::kActive, 400000, Port::LinkLayer::kInfiniBand});
  }
  plan();
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_0:1,mlx5_0:2", "mlx5_1:1,mlx5_1:2"));
}

TEST_F(Rails, GpuWithoutAnHcaOfItsOwn_GetsTheLeastLoadedRails) {
  gpu(0), gpu(1), gpu(2), gpu(2);
  hca(1), hca(1), hca(2);
  plan();
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_0,mlx5_1", "mlx5_0,mlx5_1", "mlx5_2", "mlx5_2"));
}

TEST_F(Rails, StorageNicFarFromAllGpus_IsExcluded) {
  gpu(1), gpu(2);
  hca(1), hca(2), hca(0);
  plan();
  EXPECT_EQ(plan_.rails.size(), 2u);
  EXPECT_THAT(why_excluded("mlx5_2"), HasSubstr("at best PHB (GPU0), which has mlx5_0 at PIX"));
}

TEST_F(Rails, PortDown_KeepsItsNumberAndItsGpuGetsTheNextNearest) {
  for (int number : {1, 2, 3}) gpu(number);
  for (int number : {1, 2, 3}) hca(number);
  hca(0);
  machine_.hcas[1].ports[0].state = Port::State::kDown;
  plan();
  ASSERT_EQ(plan_.rails.size(), 3u);
  EXPECT_FALSE(plan_.rails[1].usable);
  EXPECT_EQ(plan_.rails[2].id, 2);
  EXPECT_EQ(port_name(machine_, plan_.rails[2].port), "mlx5_2");
  // GPU1 gets a rail of another GPU, and not the storage NIC, which is at the same distance.
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_0", "mlx5_0", "mlx5_2"));
}

TEST_F(Rails, AllPortsDown_LeaveGpusWithoutARail) {
  gpu(1);
  hca(1).ports[0].state = Port::State::kDown;
  plan();
  EXPECT_THAT(by_gpu(), ElementsAre(""));
}

TEST_F(Rails, VirtualFunctionBesideItsPhysicalOne_IsExcluded) {
  gpu(1);
  Bdf physical = *hca(1).bdf;
  hca(1).physical_function = physical;
  plan();
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_0"));
  EXPECT_THAT(why_excluded("mlx5_1"), HasSubstr("virtual function of mlx5_0"));
}

TEST_F(Rails, VirtualFunctionAlone_IsARail) {
  gpu(1);
  hca(1).physical_function = Bdf{9, 9, 9, 0};
  plan();
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_0"));
}

TEST_F(Rails, NoGpu_MakesEveryPortARail) {
  hca(1), hca(2), hca(0);
  plan();
  EXPECT_EQ(plan_.rails.size(), 3u);
}

TEST_F(Rails, NoHca_LeavesGpusWithoutARail) {
  gpu(1);
  plan();
  EXPECT_THAT(by_gpu(), ElementsAre(""));
}

TEST_F(Rails, NamedPort_IsARailWhateverItsDistance) {
  gpu(1), gpu(2);
  hca(1), hca(2), hca(0, 100);
  options_.named = {NamedPort{"mlx5_2", -1, -1}};
  plan();
  EXPECT_EQ(plan_.rails.size(), 3u);
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_0", "mlx5_1"));
}

TEST_F(Rails, NumbersOfTheUser_AreKept) {
  gpu(1), gpu(2), gpu(3);
  hca(1), hca(2), hca(3);
  options_.named = {NamedPort{"mlx5_0", 1, 2}, NamedPort{"mlx5_2", 1, 0}};
  plan();
  std::vector<std::string> order;
  for (const Rail& rail : plan_.rails) {
    order.push_back(std::to_string(rail.id) + port_name(machine_, rail.port));
  }
  EXPECT_THAT(order, ElementsAre("0mlx5_2", "1mlx5_1", "2mlx5_0"));
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_0", "mlx5_1", "mlx5_2"));
}

TEST_F(Rails, Map_OverridesDistanceAndNumbers) {
  gpu(1), gpu(2), gpu(2);
  hca(1), hca(2), hca(0, 25);
  options_.map = *RailMap::parse_entries("GPU1=mlx5_2,mlx5_0;GPU0=mlx5_0");
  plan();
  EXPECT_EQ(port_name(machine_, plan_.rails[0].port), "mlx5_2");
  EXPECT_EQ(port_name(machine_, plan_.rails[1].port), "mlx5_0");
  // GPU2 has no entry: the nearest of the map's rails, and of those the least loaded.
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_0", "mlx5_2,mlx5_0", "mlx5_2"));
  EXPECT_THAT(why_excluded("mlx5_1"), HasSubstr("not in GDR_NCCL_RAIL_MAP"));
}

TEST_F(Rails, MapThatDoesNotFit_IsAnErrorWithTheGpusOrHcasThatExist) {
  gpu(1);
  hca(1), hca(2);
  sort(&machine_);
  PathTable paths(machine_);
  const std::pair<const char*, const char*> cases[] = {
      {"GPU1=mlx5_0", "no GPU GPU1 among the 1"},
      {"0000:99:00.0=mlx5_0", "no GPU 0000:99:00.0"},
      {"GPU0=mlx5_7", "mlx5_0, mlx5_1"},
      {"GPU0=mlx5_0:2", "no port 2"},
      {"GPU0=mlx5_0;0=mlx5_1", "two entries"}};
  for (const auto& [text, expected] : cases) {
    Result<RailPlan> plan =
        plan_rails(machine_, paths, RailOptions{{}, *RailMap::parse_entries(text)});
    ASSERT_FALSE(plan) << text;
    EXPECT_THAT(plan.error().text, HasSubstr(expected)) << text;
  }
}

TEST_F(Rails, MapToAPortThatIsDown_GivesTheGpuItsOtherPort) {
  gpu(1);
  hca(1), hca(2);
  machine_.hcas[0].ports[0].state = Port::State::kDown;
  options_.map = *RailMap::parse_entries("GPU0=mlx5_0,mlx5_1");
  plan();
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_1"));
}

}  // namespace
}  // namespace gdr::topology
