// Settings of the firmware and the kernel.
#include <gmock/gmock.h>

#include "tests/unit/tools/topo/checked_machine.h"

namespace gdr::tools::topo {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using topology::flat;

TEST(Check, DeviceOfUnknownNumaNode_IsNamedWhereThereAreSeveralNodes) {
  auto lose_node = [](Machine* machine) {
    machine->numa_nodes.push_back({-1, -1, ""});
    machine->hcas[3].at.numa = static_cast<int>(machine->numa_nodes.size()) - 1;
  };
  EXPECT_THAT(faults_with(lose_node),
              Contains(HasSubstr("numa-node: mlx5_3 (0000:74:00.0): the NUMA node is unknown")));
  Machine one_node = flat(1, 1);
  one_node.numa_nodes[0].id = -1;
  topology::nccl::Settings settings;
  settings.gdr_level = PathClass::kSys;
  EXPECT_THAT(faults_of(report_on(one_node, {}, settings)), IsEmpty());
}

// NCCL's files have a CPU for the devices of each node, also for those whose node is unknown.
TEST(Check, CpuOfUnknownNodeBesideAnother_IsNamedInAFileOfNccl) {
  Machine machine = good_machine();
  machine.nccl_file = true;
  machine.numa_nodes[1].id = -1;
  const CheckReport report = report_on(machine);
  EXPECT_THAT(faults_of(report), ElementsAre(HasSubstr("numa-node: GPU4")));
  machine.nccl_file = false;
  EXPECT_THAT(faults_of(report_on(machine)), IsEmpty());
}

TEST(Check, IommuThatTranslates_IsNamedOnX86) {
  auto translate = [](const Machine& machine, PciStates* states) {
    (*states)[*machine.hcas[0].bdf].iommu_domain = "DMA-FQ";
    (*states)[*machine.hcas[4].bdf].iommu_domain = "DMA-FQ";  // the storage network's
  };
  EXPECT_THAT(faults_with_state(translate),
              ElementsAre(HasSubstr("iommu: mlx5_0: the IOMMU translates")));
  Machine arm = good_machine();
  arm.cpu.arch = "arm64";
  PciStates states = good_states(arm);
  translate(arm, &states);
  EXPECT_THAT(faults_of(report_on(arm, states)), IsEmpty());
}

TEST(Check, SmallBar_IsNamedByPeersOrByTheModelsName) {
  auto shrink = [](const Machine& machine, PciStates* states) {
    (*states)[machine.gpus[1].bdf].largest_bar = uint64_t{1} << 28;
  };
  EXPECT_THAT(faults_with_state(shrink),
              ElementsAre(AllOf(HasSubstr("bar: GPU1 (0000:15:00.0): its largest BAR shows 0.25"),
                                HasSubstr("its peers show"))));
  Machine single = good_machine();
  single.gpus.resize(1);
  PciStates states = good_states(single);
  states[single.gpus[0].bdf].largest_bar = uint64_t{1} << 28;
  EXPECT_THAT(faults_of(report_on(single, states)), IsEmpty());
  single.gpus[0].model = "NVIDIA H100 80GB HBM3";
  EXPECT_THAT(faults_of(report_on(single, states)),
              ElementsAre(HasSubstr("0.25 GiB of the 80 GB of its memory")));
  states[single.gpus[0].bdf].largest_bar = uint64_t{1} << 37;
  EXPECT_THAT(faults_of(report_on(single, states)), IsEmpty());
}

TEST(Check, ReadRequestSmallerThanThatOfPeers_IsNamed) {
  EXPECT_THAT(faults_with_state([](const Machine& machine, PciStates* states) {
                (*states)[*machine.hcas[2].bdf].max_read_request = 512;
              }),
              ElementsAre(HasSubstr("read-request: mlx5_2 (0000:54:00.0): Max_Read_Request_Size "
                                    "is 512 bytes, that of its peers 4096")));
}

TEST(Check, ReadRequestsThatAreAllModerate_AreANote) {
  const Machine machine = good_machine();
  PciStates states = good_states(machine);
  for (auto& [bdf, state] : states) state.max_read_request = 512;
  const CheckReport report = report_on(machine, states);
  EXPECT_THAT(faults_of(report), IsEmpty());
  EXPECT_THAT(report.notes, Contains(HasSubstr("below the 4096 bytes")));
  for (auto& [bdf, state] : states) state.max_read_request = 256;
  EXPECT_THAT(faults_of(report_on(machine, states)), ::testing::SizeIs(4));
}

TEST(Check, UnknownNodeOnAMachineOfOneNode_IsNoFault) {
  Machine machine = flat(2, 1);
  machine.numa_nodes.resize(1);
  for (Gpu& gpu : machine.gpus) gpu.at.numa = -1;
  ASSERT_GE(machine.numa_nodes[0].id, 0);
  EXPECT_THAT(faults_of(report_on(machine)), Not(Contains(HasSubstr("numa-node"))));
  machine.numa_nodes.push_back(machine.numa_nodes[0]);
  machine.numa_nodes[1].id = 1;
  EXPECT_THAT(faults_of(report_on(machine)), Contains(HasSubstr("numa-node")));
}

TEST(Check, SmallBarOfAGpuWithC2c_IsNoFault) {
  Machine machine = good_machine();
  machine.gpus[1].model = "NVIDIA GH200 96GB";
  PciStates states = good_states(machine);
  states[machine.gpus[1].bdf].largest_bar = uint64_t{1} << 28;
  EXPECT_THAT(faults_of(report_on(machine, states)), Contains(HasSubstr("bar: GPU1 ")));
  machine.gpus[1].c2c_links = 10;
  EXPECT_THAT(faults_of(report_on(machine, states)), Not(Contains(HasSubstr("bar: GPU1 "))));
}

}  // namespace
}  // namespace gdr::tools::topo
