#include "topology/live/rail_decision.h"

#include <gmock/gmock.h>

#include "plugin/config/load.h"
#include "plugin/config/topology_options.h"
#include "tools/sources/hwloc_xml.h"
#include "topology/live/rail_log.h"
#include "topology/sources/nccl_xml.h"

namespace gdr::topology {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

Machine machine_of(const std::string& file) {
  std::string path = std::string(GDR_TOPOLOGIES) + "/" + file;
  Result<Machine> machine = file.rfind("nccl-", 0) == 0 ? nccl_xml(path) : hwloc_xml(path);
  EXPECT_TRUE(machine) << machine.error().text;
  return *machine;
}

RailDecision decision_of(const std::string& file, const config::Environment& environment = {}) {
  Findings findings;
  config::Options options = config::load(environment, &findings);
  EXPECT_THAT(findings, IsEmpty());
  Machine machine = machine_of(file);
  keep_accepted(&machine,
                [&](const Hca& hca, int port) { return options.hcas.accepts(hca.name, port); });
  DecisionOptions decision = config::decision_options(options, machine);
  return decide(std::move(machine), std::move(decision), {});
}

TEST(RailDecision, Description_HasALineForEachGpuAndEachOddPort) {
  std::vector<std::string> lines = describe(decision_of("hwloc-dgx-h100.xml"));
  ASSERT_EQ(lines.size(), 12u);  // 8 GPUs, 4 storage ports
  EXPECT_THAT(lines[1], HasSubstr("map GPU1 0000:43:00.0 rail 1 mlx5_3:1 path PIX GPUDirect yes: "
                                  "PIX is within P2C"));
  EXPECT_THAT(lines, Contains(HasSubstr("map mlx5_1:1 excluded: no GPU is nearest to it")));
}

TEST(RailDecision, MapThatDoesNotFit_IsWarnedAboutAndDistanceCounts) {
  RailDecision decision =
      decision_of("hwloc-dgx-h100.xml", {{"GDR_NCCL_RAIL_MAP", "GPU0=mlx5_99"}});
  ASSERT_EQ(decision.findings.size(), 1u);
  EXPECT_EQ(decision.findings[0].severity, Severity::kWarning);
  EXPECT_THAT(decision.findings[0].text, HasSubstr("no HCA is named mlx5_99"));
  EXPECT_EQ(decision.plan.rails.size(), 8u);
}

// NCCL keeps the speeds that its file states, and the link is slow all the same.
TEST(RailDecision, LinkThatCameUpSlowly_KeepsItsRailAndIsWarnedAbout) {
  Machine machine = machine_of("nccl-gb200-tray.xml");
  const int stated = machine.hcas[0].ports[0].speed_mbps;
  EXPECT_TRUE(decide(machine, {}, {}).findings.empty());
  Machine slow = machine;
  slow.hcas[0].ports[0].speed_mbps = stated / 2;
  for (Hca& hca : machine.hcas) hca.ports[0].link_mbps = stated;
  EXPECT_TRUE(decide(machine, {}, {}).findings.empty());
  machine.hcas[0].ports[0].link_mbps = stated / 4;
  const std::pair<Machine, const char*> cases[] = {{slow, "200 Gb/s"}, {machine, "100 Gb/s"}};
  for (const auto& [one, speed] : cases) {
    const RailDecision decision = decide(one, {}, {});
    ASSERT_EQ(decision.plan.rails.size(), 4u);
    EXPECT_EQ(port_label(decision.machine, decision.plan.rails[0].port), "mlx5_0:1");
    ASSERT_EQ(decision.findings.size(), 1u);
    EXPECT_EQ(decision.findings[0].severity, Severity::kWarning);
    EXPECT_EQ(decision.findings[0].subject, "mlx5_0:1");
    EXPECT_THAT(decision.findings[0].text,
                HasSubstr(std::string(speed) + ", where rails on cards of the same"));
    EXPECT_EQ(decision.machine.hcas[0].ports[0].speed_mbps, one.hcas[0].ports[0].speed_mbps);
  }
}

TEST(RailDecision, SlowerPortsOnEthernet_AreNotComparedWithThoseOnInfiniBand) {
  Machine machine = machine_of("nccl-gb200-tray.xml");
  for (size_t i = 0; i < machine.hcas.size(); ++i) {
    Port& port = machine.hcas[i].ports[0];
    port.link_layer = i % 2 == 0 ? Port::LinkLayer::kInfiniBand : Port::LinkLayer::kEthernet;
    port.link_mbps = i % 2 == 0 ? 200000 : 100000;
  }
  EXPECT_TRUE(decide(machine, {}, {}).findings.empty());
  machine.hcas[1].ports[0].link_mbps = 50000;
  EXPECT_EQ(decide(machine, {}, {}).findings.size(), 1u);
}

TEST(RailDecision, NoGpu_IsDescribed) {
  Machine machine;
  EXPECT_THAT(describe(decide(machine, {}, {})), ElementsAre(StartsWith("map no GPU: ")));
}

TEST(RailDecision, IsFlat_TreeWithoutDistances_IsTrue) {
  EXPECT_TRUE(is_flat(decision_of("hwloc-flat-vm.xml")));
  EXPECT_FALSE(is_flat(decision_of("hwloc-two-socket-plain.xml")));
  EXPECT_FALSE(is_flat(decision_of("nccl-hgx-4nic.xml")));
  EXPECT_FALSE(is_flat(decide(Machine{}, {}, {})));
}

}  // namespace
}  // namespace gdr::topology
