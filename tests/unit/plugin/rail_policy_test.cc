#include "plugin/rail_policy.h"

#include <gmock/gmock.h>

#include "tests/unit/topology/machines.h"

namespace gdr::plugin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<topology::VerbsPort> active_ports(const std::vector<std::string>& hcas) {
  std::vector<topology::VerbsPort> ports;
  for (const std::string& hca : hcas) {
    ports.push_back({});
    ports.back().hca = hca;
    ports.back().active = true;
  }
  return ports;
}

topology::RailDecision decision_with_map(topology::Machine machine, const std::string& map) {
  return topology::scene_of(std::move(machine), {}, {{}, topology::RailMap::parse(map).value()});
}

config::Options options_with_map(const std::string& map) {
  config::Options options;
  options.rail_map = topology::RailMap::parse(map).value();
  return options;
}

std::vector<size_t> sources_of(const std::vector<OfferedPort>& offered) {
  std::vector<size_t> sources;
  for (const OfferedPort& port : offered) sources.push_back(port.source);
  return sources;
}

TEST(PairsOverPcie, GpuWithC2c_HasItsHcasThatAreNearOnPcie) {
  topology::Machine machine = topology::two_sockets_with_switches();
  EXPECT_THAT(pairs_over_pcie(topology::scene_of(machine)), IsEmpty());
  machine.gpus[1].c2c_links = 1;
  auto pairs = pairs_over_pcie(topology::scene_of(machine));
  const std::string gpu = machine.gpus[1].bdf.to_string();
  EXPECT_TRUE(pairs.contains({gpu, "mlx5_0"})) << "below one switch";
  EXPECT_FALSE(pairs.contains({gpu, "mlx5_1"})) << "over C2C and the CPU";
  for (const auto& [address, hca] : pairs) EXPECT_EQ(address, gpu) << hca;
}

TEST(OfferedPorts, AnyOrderOfPorts_AreInOrderOfRails) {
  auto decision = topology::scene_of(topology::two_sockets_with_switches());
  auto offered = offered_ports(decision, active_ports({"mlx5_3", "mlx5_1", "mlx5_0", "mlx5_2"}));
  EXPECT_THAT(sources_of(offered), ElementsAre(2, 1, 3, 0));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(offered[i].rail, i);
    EXPECT_EQ(topology::port_label(decision.machine, offered[i].port),
              "mlx5_" + std::to_string(i) + ":1");
  }
}

TEST(OfferedPorts, ExcludedPort_IsNotOffered) {
  auto decision = topology::scene_of(topology::two_sockets_with_switches());
  EXPECT_THAT(offered_ports(decision, active_ports({"mlx5_4"})), IsEmpty());
  EXPECT_THAT(exclusion_reasons(decision),
              ElementsAre(HasSubstr("mlx5_4:1 excluded: "), HasSubstr("mlx5_4:2 excluded: ")));
}

TEST(OfferedPorts, PortThatIsDown_IsNotOfferedAndLeavesTheNumbersOfOthers) {
  auto decision = topology::scene_of(topology::two_sockets_with_switches());
  auto ports = active_ports({"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"});
  ports[1].active = false;
  auto offered = offered_ports(decision, ports);
  ASSERT_THAT(sources_of(offered), ElementsAre(0, 2, 3));
  EXPECT_EQ(offered[1].rail, 2);
}

TEST(GeneratedTopology, FlatMachineWithAMap_IsGenerated) {
  const std::string map = "GPU0=mlx5_1;GPU1=mlx5_0";
  auto decision = decision_with_map(topology::flat(2, 2), map);
  EXPECT_TRUE(should_generate_topology(decision, options_with_map(map)));
  EXPECT_FALSE(should_generate_topology(decision, config::Options{}));
}

TEST(GeneratedTopology, FileOfTheUser_IsNeverReplaced) {
  const std::string map = "GPU0=mlx5_1;GPU1=mlx5_0";
  config::Options options = options_with_map(map);
  options.topology_file = "/etc/topology.xml";
  EXPECT_FALSE(should_generate_topology(decision_with_map(topology::flat(2, 2), map), options));
}

TEST(GeneratedTopology, TreeWithDistances_IsNotGenerated) {
  const std::string map = "GPU0=mlx5_3";
  auto decision = decision_with_map(topology::two_sockets_with_switches(), map);
  EXPECT_FALSE(should_generate_topology(decision, options_with_map(map)));
}

TEST(GeneratedTopology, FlatMachineThatMayHaveC2c_IsNotGenerated) {
  const std::string map = "GPU0=mlx5_1;GPU1=mlx5_0";
  topology::Machine machine = topology::flat(2, 2);
  machine.cpu.arch = "arm64";
  EXPECT_FALSE(should_generate_topology(decision_with_map(machine, map), options_with_map(map)));
  machine.cpu.arch = "x86_64";
  machine.gpus[0].c2c_links = 1;
  EXPECT_FALSE(should_generate_topology(decision_with_map(machine, map), options_with_map(map)));
}

TEST(GroupedDecision, FlatMachine_PutsEachGpuBesideItsRail) {
  auto decision = decision_with_map(topology::flat(2, 2), "GPU0=mlx5_1;GPU1=mlx5_0");
  auto grouped = grouped_decision(decision);
  EXPECT_THAT(decision.machine.switches, IsEmpty());
  EXPECT_THAT(grouped.machine.switches, SizeIs(2));
  for (const topology::GpuRails& gpu : grouped.plan.gpus) {
    EXPECT_EQ(gpu.path, topology::PathClass::kPix);
  }
  EXPECT_EQ(grouped.prediction.device_to_gpu(0, 1).path, topology::PathClass::kPhb);
  EXPECT_EQ(grouped.prediction.device_to_gpu(1, 1).path, topology::PathClass::kPix);
  ASSERT_FALSE(grouped.findings.empty());
  EXPECT_THAT(grouped.findings.back().text, HasSubstr("PHB to PIX"));
  EXPECT_EQ(topology::port_label(grouped.machine, grouped.plan.rails[0].port), "mlx5_1:1");
}

TEST(UnfollowedMap, MapAgainstDistance_NamesItsGpus) {
  const std::string map = "GPU0=mlx5_3;GPU2=mlx5_1;GPU6=mlx5_0";
  auto decision = decision_with_map(topology::two_sockets_with_switches(), map);
  auto finding = unfollowed_map(decision, topology::disagreements(decision), options_with_map(map));
  ASSERT_TRUE(finding.has_value());
  EXPECT_EQ(finding->severity, Severity::kWarning);
  EXPECT_THAT(finding->text, HasSubstr("GDR_NCCL_RAIL_MAP for GPU0, GPU6"));
}

std::string fix_of_map(const topology::Machine& machine, const std::string& map) {
  auto decision = decision_with_map(machine, map);
  auto finding = unfollowed_map(decision, topology::disagreements(decision), options_with_map(map));
  return finding ? finding->fix : "none needed";
}

TEST(UnfollowedMap, Fix_IsWhatMakesNcclFollowByThePrediction) {
  const std::string crossed = "GPU0=mlx5_1;GPU1=mlx5_0";
  EXPECT_THAT(fix_of_map(topology::flat(2, 2), crossed), HasSubstr("set NCCL_TOPO_FILE to what"));
  auto grouped = grouped_decision(decision_with_map(topology::flat(2, 2), crossed));
  EXPECT_THAT(topology::disagreements(grouped), IsEmpty());
  // Both GPUs have both HCAs: no grouped file can give each GPU all, and the policy can.
  EXPECT_EQ(fix_of_map(topology::flat(2, 2), "GPU0=mlx5_0,mlx5_1;GPU1=mlx5_0,mlx5_1"),
            "set NCCL_NETDEVS_POLICY=ALL");
}

TEST(UnfollowedMap, MapThatNothingMakesNcclFollow_RecommendsNoFile) {
  const std::string map = "GPU0=mlx5_3;GPU2=mlx5_1;GPU6=mlx5_0";
  const topology::Machine machine = topology::two_sockets_with_switches();
  auto grouped = grouped_decision(decision_with_map(machine, map));
  ASSERT_FALSE(topology::disagreements(grouped).empty());
  EXPECT_THAT(fix_of_map(machine, map), testing::AllOf(HasSubstr("take these GPUs out of the map"),
                                                       testing::Not(HasSubstr("TOPO_FILE"))));
}

TEST(UnfollowedMap, MapAlongDistanceOrNone_IsNothing) {
  auto decision = topology::scene_of(topology::two_sockets_with_switches());
  EXPECT_FALSE(unfollowed_map(decision, {}, {}).has_value());
  const std::string map =
      "GPU0=mlx5_0;GPU1=mlx5_0;GPU2=mlx5_1;GPU3=mlx5_1;"
      "GPU4=mlx5_2;GPU5=mlx5_2;GPU6=mlx5_3;GPU7=mlx5_3";
  auto mapped = decision_with_map(topology::two_sockets_with_switches(), map);
  const auto different = topology::disagreements(mapped);
  EXPECT_FALSE(unfollowed_map(mapped, different, options_with_map(map)).has_value());
}

}  // namespace
}  // namespace gdr::plugin
