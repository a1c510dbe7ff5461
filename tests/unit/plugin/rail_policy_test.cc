#include "plugin/rail_policy.h"

#include <gmock/gmock.h>

#include "tests/unit/topology/machines.h"
#include "topology/live/read_machine.h"

namespace gdr::plugin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

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
  auto offered =
      offered_ports(decision, active_ports({"mlx5_3", "mlx5_1", "mlx5_0", "mlx5_2"}), nullptr);
  EXPECT_THAT(sources_of(offered), ElementsAre(2, 1, 3, 0));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(offered[i].rail, i);
    EXPECT_EQ(topology::port_label(decision.machine, offered[i].port),
              "mlx5_" + std::to_string(i) + ":1");
  }
}

TEST(OfferedPorts, ExcludedPort_IsNotOffered) {
  auto decision = topology::scene_of(topology::two_sockets_with_switches());
  EXPECT_THAT(offered_ports(decision, active_ports({"mlx5_4"}), nullptr), IsEmpty());
  const auto excluded = excluded_ports(decision);
  ASSERT_EQ(excluded.size(), 2u);
  EXPECT_EQ(excluded[0].kind, FindingKind::kPortExcluded);
  EXPECT_THAT(to_string(excluded[0]), StartsWith("mlx5_4:1 excluded: "));
  EXPECT_THAT(to_string(excluded[1]), StartsWith("mlx5_4:2 excluded: "));
}

TEST(OfferedPorts, PortThatIsDown_IsNotOfferedAndLeavesTheNumbersOfOthers) {
  auto decision = topology::scene_of(topology::two_sockets_with_switches());
  auto ports = active_ports({"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"});
  ports[1].active = false;
  auto offered = offered_ports(decision, ports, nullptr);
  ASSERT_THAT(sources_of(offered), ElementsAre(0, 2, 3));
  EXPECT_EQ(offered[1].rail, 2);
}

// NCCL would write behind its array (proxy.h, ncclProxyState::netComms).
TEST(OfferedPorts, MoreThanNcclHasRoomFor_TheLastAreSkipped) {
  auto decision = topology::scene_of(topology::flat(1, 130));
  std::vector<topology::VerbsPort> ports;
  for (const topology::Hca& hca : decision.machine.hcas) {
    ports.push_back(active_ports({hca.name.c_str()})[0]);
  }
  std::vector<transport::SkippedPort> skipped;
  EXPECT_EQ(offered_ports(decision, ports, &skipped).size(), 128u);
  ASSERT_EQ(skipped.size(), 2u);
  EXPECT_THAT(to_string(skipped[0]), testing::HasSubstr("is beyond the 128 devices"));
}

TEST(GeneratedTopology, FlatMachineWithAMap_IsGeneratedUnlessTheUserHasAFileOrItMayHaveC2c) {
  const std::string map = "GPU0=mlx5_1;GPU1=mlx5_0";
  const auto generated = [&](const topology::Machine& machine, const config::Options& options) {
    return should_generate_topology(decision_with_map(machine, map), options);
  };
  config::Options options = options_with_map(map);
  EXPECT_TRUE(generated(topology::flat(2, 2), options));
  EXPECT_FALSE(generated(topology::flat(2, 2), config::Options{}));
  EXPECT_FALSE(generated(topology::two_sockets_with_switches(), options)) << "it has distances";
  topology::Machine arm = topology::flat(2, 2), c2c = topology::flat(2, 2);
  arm.cpu.arch = "arm64";
  c2c.gpus[0].c2c_links = 1;
  EXPECT_FALSE(generated(arm, options));
  EXPECT_FALSE(generated(c2c, options));
  options.topology_file = "/etc/topology.xml";
  EXPECT_FALSE(generated(topology::flat(2, 2), options));
  options.topology_file = topology::kNoFile;
  EXPECT_TRUE(generated(topology::flat(2, 2), options)) << "NCCL_TOPO_FILE is empty";
}

TEST(GroupedDecision, FlatMachine_PutsEachGpuBesideItsRail) {
  auto decision = decision_with_map(topology::flat(2, 2), "GPU0=mlx5_1;GPU1=mlx5_0");
  auto grouped = grouped_decision(decision);
  EXPECT_THAT(decision.machine.switches, IsEmpty());
  EXPECT_THAT(grouped.machine.switches, SizeIs(2));
  for (const topology::GpuRails& gpu : grouped.plan.gpus) {
    EXPECT_EQ(gpu.path, topology::PathClass::kPix);
  }
  EXPECT_EQ(grouped.paths.gpu_hca(1, 0), topology::PathClass::kPix) << "GPU1 and mlx5_0";
  EXPECT_EQ(grouped.paths.gpu_hca(1, 1), topology::PathClass::kPhb);
  ASSERT_FALSE(grouped.findings.empty());
  EXPECT_THAT(grouped.findings.back().text, HasSubstr("PHB to PIX"));
  EXPECT_EQ(topology::port_label(grouped.machine, grouped.plan.rails[0].port), "mlx5_1:1");
}

TEST(MapAgainstDistance, FartherRail_NamesItsGpus) {
  const auto finding_on = [](const topology::Machine& machine, const std::string& map) {
    return map_against_distance(decision_with_map(machine, map), options_with_map(map));
  };
  const topology::Machine machine = topology::two_sockets_with_switches();
  auto finding = finding_on(machine, "GPU0=mlx5_3;GPU2=mlx5_1;GPU6=mlx5_0");
  ASSERT_TRUE(finding.has_value());
  EXPECT_EQ(finding->severity, Severity::kWarning);
  EXPECT_THAT(finding->text, HasSubstr("GDR_NCCL_RAIL_MAP for GPU0, GPU6, to which another HCA"));
  EXPECT_THAT(finding->fix, HasSubstr("take these GPUs out of the map"));
  // A nearer HCA that the map leaves out is not offered and does not count.
  EXPECT_FALSE(finding_on(machine, "GPU0=mlx5_3").has_value());
  EXPECT_FALSE(finding_on(machine, "GPU0=mlx5_0;GPU2=mlx5_1;GPU4=mlx5_2;GPU6=mlx5_3").has_value());
  EXPECT_FALSE(finding_on(topology::flat(2, 2), "GPU0=mlx5_1;GPU1=mlx5_0").has_value());
  EXPECT_FALSE(map_against_distance(topology::scene_of(machine), {}).has_value());
}

}  // namespace
}  // namespace gdr::plugin
