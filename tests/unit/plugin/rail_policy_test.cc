#include "plugin/rail_policy.h"

#include <gmock/gmock.h>

#include "tests/unit/topology/machines.h"

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
  std::vector<discovery::SkippedPort> skipped;
  EXPECT_EQ(offered_ports(decision, ports, &skipped).size(), 128u);
  ASSERT_EQ(skipped.size(), 2u);
  EXPECT_THAT(to_string(skipped[0]), testing::HasSubstr("is beyond the 128 devices"));
}

TEST(IgnoredMap, FartherRailOrNoDistances_IsAWarningWithTheFile) {
  const auto finding_on = [](const topology::Machine& machine, const std::string& map) {
    return ignored_map(decision_with_map(machine, map), options_with_map(map));
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
  finding = finding_on(topology::flat(2, 2), "GPU0=mlx5_1;GPU1=mlx5_0");
  ASSERT_TRUE(finding.has_value());
  EXPECT_THAT(finding->text, HasSubstr("of which this machine shows nothing"));
  EXPECT_THAT(finding->fix, StartsWith("set NCCL_TOPO_FILE to what `nccl-gdr topo --nccl-xml"));
  EXPECT_FALSE(ignored_map(topology::scene_of(machine), {}).has_value());
}

}  // namespace
}  // namespace gdr::plugin
