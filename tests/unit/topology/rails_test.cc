#include "topology/rails.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <iterator>
#include <sstream>

#include "tests/unit/topology/rails_fixture.h"

namespace gdr::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Rails : public RailsFixture {};

struct PlanCase {
  const char* name;
  const char* gpus;
  const char* hcas;   // "switch:Gb/s", and "switch:2xGb/s" where it has two ports
  const char* rails;  // of each GPU; "-" if it has none
  const char* excluded = "";
  const char* reason = "";  // a part of that of the first excluded port
};

void PrintTo(const PlanCase& one, std::ostream* out) { *out << one.name; }

// The words of a text, of which "-" is an empty one.
std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> all(std::istream_iterator<std::string>(stream), {});
  std::replace(all.begin(), all.end(), std::string("-"), std::string());
  return all;
}

class RailsOf : public RailsFixture, public ::testing::WithParamInterface<PlanCase> {};

TEST_P(RailsOf, Machine_AreThoseOfTheTable) {
  const PlanCase& one = GetParam();
  add_gpus(one.gpus);
  add_hcas(one.hcas);
  plan();
  std::vector<std::string> excluded;
  for (const ExcludedPort& one_port : plan_.excluded) {
    excluded.push_back(port_name(machine_, one_port.port));
  }
  EXPECT_EQ(by_gpu(), words(one.rails));
  EXPECT_EQ(excluded, words(one.excluded));
  if (!plan_.excluded.empty()) {
    EXPECT_THAT(plan_.excluded[0].reason, HasSubstr(one.reason));
  }
  for (size_t i = 0; i < plan_.rails.size(); ++i) EXPECT_EQ(plan_.rails[i].id, static_cast<int>(i));
}

const auto kNameOfCase = [](const auto& info) { return std::string(info.param.name); };

INSTANTIATE_TEST_SUITE_P(
    Distance, RailsOf,
    ::testing::Values(
        PlanCase{"HcaUnderEachGpusSwitch", "1 2 3 4", "1 2 3 4", "mlx5_0 mlx5_1 mlx5_2 mlx5_3"},
        PlanCase{"EqualDistances", "0 0 0 0", "0 0 0 0", "mlx5_0 mlx5_1 mlx5_2 mlx5_3"},
        PlanCase{"HcaUnderTheSwitchOfTwo", "1 1 2 2", "1 2", "mlx5_0 mlx5_0 mlx5_1 mlx5_1"},
        PlanCase{"FewerRailsThanGpus", "0 0 0 0", "0 0", "mlx5_0 mlx5_0 mlx5_1 mlx5_1"},
        PlanCase{"MoreRailsThanGpus", "0 0", "0 0 0 0", "mlx5_0,mlx5_1 mlx5_2,mlx5_3"},
        PlanCase{"PortsOfOneCardGoToOneGpu", "1 1", "1:2x400 1:2x400",
                 "mlx5_0:1,mlx5_0:2 mlx5_1:1,mlx5_1:2"},
        PlanCase{"SixRailsForFourGpusStayWithTheirCards", "0 0 0 0", "0:2x400 0:2x400 0:2x400",
                 "mlx5_0:1 mlx5_0:2 mlx5_1:1,mlx5_1:2 mlx5_2:1,mlx5_2:2"},
        PlanCase{"GpuWithoutAnHcaOfItsOwnGetsTheLeastLoaded", "0 1 2 2", "1 1 2",
                 "mlx5_0,mlx5_1 mlx5_0,mlx5_1 mlx5_2 mlx5_2"},
        PlanCase{"StorageNicFarFromAllGpus", "1 2", "1 2 0", "mlx5_0 mlx5_1", "mlx5_2",
                 "at best PHB (GPU0), which has mlx5_0 at PIX"},
        PlanCase{"NoHca", "1", "", "-"},
        PlanCase{"NoGpuMakesEveryPortARail", "", "0:400 0:100 1:25 2", ""},
        // One NUMA node for each quarter of a socket, and one NIC for each socket, as servers with
        // NPS4 have; sockets and latencies are unknown.
        PlanCase{"NumbersOfNodesDecide", "0@0 0@1 0@2 0@3 0@4 0@5 0@6 0@7", "0:400@6 0:400@0",
                 "mlx5_1 mlx5_1 mlx5_1 mlx5_1 mlx5_0 mlx5_0 mlx5_0 mlx5_0"},
        // Bandwidth comes before distance within a class: both NICs are used.
        PlanCase{"AllGpusNearerToOneRail", "0@1 0@1", "0:400@0 0:400@2", "mlx5_0 mlx5_1"}),
    kNameOfCase);

INSTANTIATE_TEST_SUITE_P(
    SlowPorts, RailsOf,
    ::testing::Values(
        PlanCase{"HalfTheSpeedAndAsNear", "0", "0:25 0:400 0:200 0:300", "mlx5_1,mlx5_3",
                 "mlx5_0 mlx5_2",
                 "slow: 25 Gb/s, where mlx5_1 has 400 Gb/s and is as near to GPU0"},
        PlanCase{"SlowerButNearerStays", "1 2", "1:200 2:200 0:400", "mlx5_0 mlx5_1", "mlx5_2"},
        PlanCase{"FourTimesSlowerAndNearer", "1 2", "1:25 2:200 0:400", "mlx5_2 mlx5_1", "mlx5_0",
                 "slow"},
        PlanCase{"FourTimesSlowerNamesTheDistance", "1", "1:25 0:400", "mlx5_1", "mlx5_0",
                 "slow: 25 Gb/s, where mlx5_1 has 400 Gb/s at PHB, so that GPU0 gains bandwidth"},
        PlanCase{"TwoFarPortsOfTwiceTheSpeed", "1", "1:100 0:200 0:200", "mlx5_0", "mlx5_1 mlx5_2"},
        PlanCase{"UnknownSpeedIsKept", "0", "0:0 0:400", "mlx5_0,mlx5_1"},
        PlanCase{"OneFastPortFarFromAllGpus", "1 2 3 4 5 6 7 8",
                 "1:100 2:100 3:100 4:100 5:100 6:100 7:100 8:100 0:400",
                 "mlx5_0 mlx5_1 mlx5_2 mlx5_3 mlx5_4 mlx5_5 mlx5_6 mlx5_7", "mlx5_8",
                 "no GPU is nearest to it"},
        PlanCase{"FastPortOnEachSocket", "1 2 3 4",
                 "1:100 1:100 2:100 2:100 3:100 3:100 4:100 4:100 0:400@0 0:400@1",
                 "mlx5_0,mlx5_1 mlx5_2,mlx5_3 mlx5_4,mlx5_5 mlx5_6,mlx5_7", "mlx5_8 mlx5_9"},
        PlanCase{"TwoStoragePortsBesideTheOnlyRail", "1 1", "1:100 1:100 1:200", "mlx5_2 mlx5_2",
                 "mlx5_0 mlx5_1"},
        // One half of the machine has an older network, the other half a newer one.
        PlanCase{"OlderHalfOfAMixedMachine", "1 2 3 4", "1:100 2:100 3:400 4:400",
                 "mlx5_0 mlx5_1 mlx5_2 mlx5_3"},
        // GPU0 loses nothing without its port of 25 Gb/s, but GPU1 has no other that is near.
        PlanCase{"PortStaysWhereItsGpuNeedsIt", "1 3 4", "1:25 1:200 3:25 4:25",
                 "mlx5_1 mlx5_2 mlx5_3", "mlx5_0", "slow"},
        PlanCase{"GpuWithoutANearPort", "1 3", "1:400 1:25", "mlx5_0 mlx5_0", "mlx5_1",
                 "slow: 25 Gb/s"},
        // 400 Gb/s of the cards, 200 of the other; then 200 of both.
        PlanCase{"DualPortCardsAreKeptByTheirSum", "1", "1:2x100 1:2x100 1:200",
                 "mlx5_0:1,mlx5_0:2,mlx5_1:1,mlx5_1:2,mlx5_2"},
        PlanCase{"SinglePortCardsAreExcludedByTheirSum", "1", "1:100 1:100 1:200", "mlx5_2",
                 "mlx5_0 mlx5_1"}),
    kNameOfCase);

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

TEST_F(Rails, VirtualFunction_IsARailWhereItsPhysicalOneIsNotThere) {
  gpu(1);
  Bdf physical = *hca(1, 100).bdf;
  hca(1).physical_function = physical;  // faster, and yet not in place of the physical one
  plan();
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_0"));
  EXPECT_THAT(why_excluded("mlx5_1"), HasSubstr("virtual function of mlx5_0"));
  machine_.hcas[1].physical_function = Bdf{9, 9, 9, 0};
  plan();
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_1"));
}

TEST_F(Rails, NamedPort_IsARailWhateverItsDistanceAndSpeed) {
  gpu(1), gpu(2);
  hca(1), hca(2), hca(0, 100), hca(1, 25);
  options_.named = {NamedPort{"mlx5_2", -1, -1}, NamedPort{"mlx5_3", -1, -1}};
  plan();
  EXPECT_EQ(plan_.rails.size(), 4u);
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_0,mlx5_3", "mlx5_1"));
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
