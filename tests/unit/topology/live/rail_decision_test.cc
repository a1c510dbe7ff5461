#include "topology/live/rail_decision.h"

#include <gmock/gmock.h>

#include "plugin/hcas.h"
#include "topology/sources/hwloc.h"
#include "topology/sources/nccl_xml.h"

namespace gdr::topology {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

config::Options options_of(const config::Environment& environment) {
  std::vector<config::Diagnostic> diagnostics;
  config::Options options = config::load(environment, &diagnostics);
  EXPECT_THAT(diagnostics, IsEmpty());
  return options;
}

Machine machine_of(const std::string& file) {
  std::string path = std::string(GDR_TOPOLOGIES) + "/" + file;
  Result<Machine> machine = file.rfind("nccl-", 0) == 0 ? nccl_xml(path) : hwloc_xml(path);
  EXPECT_TRUE(machine) << machine.error().text;
  return *machine;
}

RailDecision view_of(const std::string& file, const config::Environment& environment = {}) {
  config::Options options = options_of(environment);
  Machine machine = machine_of(file);
  plugin::keep_accepted(&machine, options.hcas);
  return decide(std::move(machine), options, {});
}

TEST(RailDecision, Description_HasALineForEachGpuAndEachOddPort) {
  std::vector<std::string> lines = describe(view_of("hwloc-dgx-h100.xml"));
  ASSERT_EQ(lines.size(), 12u);  // 8 GPUs, 4 storage ports
  EXPECT_THAT(lines[1], HasSubstr("map GPU1 0000:43:00.0 rail 1 mlx5_3:1 path PIX GPUDirect yes: "
                                  "PIX is within P2C"));
  EXPECT_THAT(lines, Contains(HasSubstr("map mlx5_1:1 is no rail: no GPU is nearest to it")));
}

TEST(RailDecision, DifferentDirections_AreToldApart) {
  std::vector<std::string> lines =
      describe(view_of("hwloc-dgx-h100.xml", {{"NCCL_NET_GDR_READ", "0"}}));
  EXPECT_THAT(lines[0], HasSubstr("GPUDirect receive yes: PIX is within P2C"));
  EXPECT_THAT(lines[0], HasSubstr("; send no: NCCL_NET_GDR_READ=0"));
}

TEST(RailDecision, Level_DecidesTheVerdict) {
  std::vector<std::string> lines = describe(view_of("hwloc-two-socket-plain.xml"));
  EXPECT_THAT(lines[0], HasSubstr("GPUDirect no: PHB is beyond P2C"));
  lines = describe(view_of("hwloc-two-socket-plain.xml", {{"NCCL_NET_GDR_LEVEL", "PHB"}}));
  EXPECT_THAT(lines[0], HasSubstr("GPUDirect yes: PHB is within NCCL_NET_GDR_LEVEL=PHB"));
}

TEST(RailDecision, LevelAsANumber_IsExplained) {
  RailDecision view = view_of("hwloc-two-socket-plain.xml", {{"NCCL_NET_GDR_LEVEL", "3"}});
  EXPECT_THAT(view.notes.infos, ElementsAre(HasSubstr("number 3 of NCCL_NET_GDR_LEVEL for PHB")));
}

TEST(RailDecision, StoragePortNamedInFull_BecomesARail) {
  RailDecision by_prefix = view_of("hwloc-dgx-h100.xml", {{"NCCL_IB_HCA", "mlx5"}});
  EXPECT_EQ(by_prefix.plan.rails.size(), 8u);
  RailDecision named = view_of("hwloc-dgx-h100.xml", {{"NCCL_IB_HCA", "=mlx5_0,mlx5_1,mlx5_3"}});
  EXPECT_EQ(named.plan.rails.size(), 3u);
}

TEST(RailDecision, RailNumbersOfTheUser_Count) {
  RailDecision view =
      view_of("hwloc-two-socket-plain.xml", {{"NCCL_IB_HCA", "=mlx5_0:1:1,mlx5_1:1:0"}});
  ASSERT_EQ(view.plan.rails.size(), 2u);
  EXPECT_EQ(port_label(view.machine, view.plan.rails[0].port), "mlx5_1:1");
  EXPECT_EQ(view.plan.rails[1].id, 1);
}

TEST(RailDecision, MapThatDoesNotFit_IsToldAndDistanceCounts) {
  RailDecision view = view_of("hwloc-dgx-h100.xml", {{"GDR_NCCL_RAIL_MAP", "GPU0=mlx5_99"}});
  EXPECT_THAT(view.notes.warnings, ElementsAre(HasSubstr("no HCA is named mlx5_99")));
  EXPECT_EQ(view.plan.rails.size(), 8u);
}

TEST(RailDecision, NoGpu_SaysSo) {
  Machine machine;
  EXPECT_THAT(describe(decide(machine, {}, {})), ElementsAre(StartsWith("map no GPU found")));
}

TEST(RailDecision, Flat_IsATreeThatTellsNothing) {
  EXPECT_TRUE(is_flat(view_of("hwloc-flat-vm.xml")));
  EXPECT_FALSE(is_flat(view_of("hwloc-two-socket-plain.xml")));
  EXPECT_FALSE(is_flat(view_of("nccl-hgx-4nic.xml")));
  EXPECT_FALSE(is_flat(decide(Machine{}, {}, {})));
}

}  // namespace
}  // namespace gdr::topology
