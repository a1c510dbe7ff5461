#include "tools/prediction/rail_agreement.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "tests/unit/topology/machines.h"

namespace gdr::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// GPUs and HCAs on one NUMA node without switches, all alike.
Machine alike(int gpus, int hcas) {
  Machine machine;
  machine.cpu = Cpu{"x86_64", "GenuineIntel", 6, 143};
  machine.numa_nodes = {NumaNode{0, -1, ""}};
  for (int i = 0; i < gpus; ++i) {
    machine.gpus.push_back(make_gpu(bdf_of(1 + i), Attachment{-1, 0, -1, -1}));
  }
  for (int i = 0; i < hcas; ++i) {
    machine.hcas.push_back(
        make_hca("mlx5_" + std::to_string(i), bdf_of(32 + i), Attachment{-1, 0, -1, -1}));
  }
  return machine;
}

PredictedRails with_map(const Machine& machine, const char* map,
                        const nccl::Settings& settings = {}) {
  return scene_of(machine, settings, {{}, RailMap::parse(map).value()});
}

TEST(Disagreements, RailsThatNcclFollows_AreNone) {
  EXPECT_THAT(disagreements(with_map(alike(2, 2), "GPU0=mlx5_0;GPU1=mlx5_1")), IsEmpty());
}

TEST(Disagreements, TieThatNcclBreaksOtherwise_HasReasonAndAFixThatWorks) {
  const PredictedRails decision = with_map(alike(2, 2), "GPU0=mlx5_1;GPU1=mlx5_0");
  const std::vector<Disagreement> found = disagreements(decision);
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].gpu, 0u);
  EXPECT_THAT(found[0].reason, HasSubstr("equally near and fast"));
  EXPECT_THAT(found[0].fix, HasSubstr("NCCL_TOPO_FILE"));
  EXPECT_TRUE(found[0].as_good);
  EXPECT_THAT(sentences(decision.machine, found),
              ElementsAre("GPU0, GPU1: NCCL uses other HCAs than the rails, which are as near and "
                          "as fast"));
  EXPECT_THAT(to_string(decision.machine, found[0]),
              HasSubstr("GPU0: NCCL uses mlx5_0:1 where the rail is mlx5_1:1"));
}

TEST(Disagreements, GpuWithAllHcas_NeedsThePolicy) {
  const std::vector<Disagreement> found =
      disagreements(with_map(alike(2, 2), "GPU0=mlx5_0,mlx5_1;GPU1=mlx5_0,mlx5_1"));
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_THAT(found[1].reason, HasSubstr("divides the HCAs"));
  EXPECT_EQ(found[1].fix, "set NCCL_NETDEVS_POLICY=ALL");
}

TEST(Disagreements, FasterHcaFartherAway_IsNamedWithBandwidths) {
  PredictedRails decision = with_map(alike(2, 2), "GPU0=mlx5_0;GPU1=mlx5_1");
  decision.machine.hcas[0].ports[0].speed_mbps = 100000;
  decision.prediction = predict(decision.machine, decision.plan, {});
  const std::vector<Disagreement> found = disagreements(decision);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].reason,
              HasSubstr("NCCL prefers bandwidth to distance: 48.0 GB/s to mlx5_1"));
  EXPECT_FALSE(found[0].as_good);  // both GPUs are on one HCA, and the other is idle
  EXPECT_THAT(sentences(decision.machine, found),
              ElementsAre(to_string(decision.machine, found[0])));
}

// Two switches of one host bridge, each with a GPU and an HCA.
TEST(Disagreements, HcaBelowTheSameCpu_IsAsGoodThroughHostMemory) {
  Machine machine;
  machine.numa_nodes = {NumaNode{0, -1, ""}};
  machine.host_bridges = {HostBridge{0, 0x10}};
  const Attachment root{-1, 0, 0};
  Attachment left = root, right = root;
  left.parent = add_switch(&machine, bdf_of(0x11), root);
  right.parent = add_switch(&machine, bdf_of(0x21), root);
  machine.gpus = {make_gpu(bdf_of(0x12), left), make_gpu(bdf_of(0x22), right)};
  machine.hcas = {make_hca("mlx5_0", bdf_of(0x13), left), make_hca("mlx5_1", bdf_of(0x23), right)};
  machine.hcas[0].ports[0].speed_mbps = machine.hcas[1].ports[0].speed_mbps = 100000;
  PredictedRails decision = scene_of(machine);
  ASSERT_THAT(disagreements(decision), IsEmpty());
  // NCCL is made to see the HCAs exchanged, and chooses accordingly.
  Machine exchanged = decision.machine;
  std::swap(exchanged.hcas[0].at, exchanged.hcas[1].at);
  for (bool direct : {true, false}) {
    for (Gpu& gpu : exchanged.gpus) gpu.gpudirect = direct;
    decision.prediction = predict(exchanged, decision.plan, {});
    const std::vector<Disagreement> found = disagreements(decision);
    ASSERT_THAT(found, SizeIs(2)) << direct;
    EXPECT_EQ(found[0].as_good, !direct);
  }
}

// GPU0 and GPU2 are on the CPU beside mlx5_0; GPU1 and mlx5_1 are below a switch whose own link is
// slow. GPU0 sends by PXN over GPU1 to mlx5_1, faster than to its rail, and receives through the
// slow link.
TEST(Disagreements, FasterSendsWithSlowerReceives_AreNotAsGood) {
  Machine machine = alike(3, 2);
  machine.gpus[1].at.parent = add_switch(&machine, bdf_of(64), Attachment{-1, 0, -1});
  machine.hcas[1].at.parent = machine.gpus[1].at.parent;
  machine.switches[0].link = PciLink{8, 8};
  machine.hcas[0].link = PciLink{16, 16};
  machine.gpus[0].nvlinks = {NvLink{NvLink::To::kGpu, machine.gpus[1].bdf, 4}};
  machine.gpus[1].nvlinks = {NvLink{NvLink::To::kGpu, machine.gpus[0].bdf, 4}};
  const PredictedRails decision = with_map(machine, "GPU0=mlx5_0;GPU1=mlx5_1;GPU2=mlx5_0");
  const std::vector<Disagreement> found = disagreements(decision);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].gpu, 0u);
  EXPECT_FALSE(found[0].as_good);
  EXPECT_THAT(found[0].reason,
              HasSubstr("; it receives with 6.0 GB/s, and with 24.0 GB/s from the rail"));
}

// Two GPUs share each HCA, and NCCL takes them the other way round.
TEST(Disagreements, HcaSharedAsMuchAsTheRail_IsAsGood) {
  const std::vector<Disagreement> found =
      disagreements(with_map(alike(4, 2), "GPU0=mlx5_1;GPU1=mlx5_0;GPU2=mlx5_1;GPU3=mlx5_0"));
  ASSERT_THAT(found, SizeIs(4));
  for (const Disagreement& one : found) EXPECT_TRUE(one.as_good) << one.reason;
}

nccl::Settings at_most_one_device() {
  nccl::Settings settings;
  settings.net_devices = {nccl::NetDevicesPolicy::Kind::kMax, 1};
  return settings;
}

TEST(Disagreements, OneOfFourRailsByPolicyMax1_IsNotAsGoodAndTheDefaultIsTheFix) {
  const PredictedRails decision = scene_of(alike(1, 4), at_most_one_device());
  const std::vector<Disagreement> found = disagreements(decision);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].rails, SizeIs(4));
  EXPECT_THAT(found[0].chosen, SizeIs(1));
  EXPECT_FALSE(found[0].as_good);
  EXPECT_THAT(found[0].reason,
              HasSubstr("; it gets 48.0 GB/s in all, and 192.0 GB/s by its rails"));
  EXPECT_EQ(found[0].fix, "set NCCL_NETDEVS_POLICY=AUTO, or unset it");
}

// With MAX:1 the GPU on socket 1 would use one of its four rails.
TEST(Disagreements, PolicyMax1ThatTakesRailsFromAnotherGpu_IsNoFix) {
  Machine machine = alike(3, 8);
  machine.numa_nodes.push_back(NumaNode{1, -1, ""});
  machine.gpus[2].at.numa = 1;
  for (size_t i = 4; i < 8; ++i) machine.hcas[i].at.numa = 1;
  machine.hcas[2].ports[0].speed_mbps /= 2;
  const std::vector<Disagreement> found = disagreements(scene_of(machine));
  ASSERT_FALSE(found.empty());
  EXPECT_FALSE(found[0].as_good);
  for (const Disagreement& one : found) EXPECT_EQ(one.fix, "") << one.reason;
}

TEST(Remedies, PolicyMax1WhereGpusHaveSeveralRails_IsLeftOut) {
  for (int gpus : {1, 2, 3}) {
    for (const Remedy& remedy : remedies(scene_of(alike(gpus, 4)))) {
      EXPECT_THAT(remedy.text, Not(HasSubstr("MAX:1"))) << gpus;
    }
  }
}

// NCCL gives two HCAs to each of three GPUs, so that each HCA is used.
TEST(Disagreements, HcasThatDoNotComeOutEven_AreAsGood) {
  for (const Disagreement& one : disagreements(scene_of(alike(3, 4)))) {
    EXPECT_TRUE(one.as_good) << one.gpu << one.reason;
  }
}

TEST(Sentences, PartOfTheRailsThatGivesAsMuch_IsNotCalledOtherHcas) {
  const PredictedRails decision =
      with_map(alike(2, 2), "GPU0=mlx5_0,mlx5_1;GPU1=mlx5_0,mlx5_1", at_most_one_device());
  EXPECT_THAT(
      sentences(decision.machine, disagreements(decision)),
      ElementsAre("GPU0, GPU1: NCCL uses fewer HCAs than there are rails, which give as much"));
}

// The rail of GPU1 is on another socket, where NCCL does without GPUDirect RDMA. A file that shows
// it beside the GPU would change that.
TEST(Remedies, FileThatWouldAllowGpuDirectBeyondTheLevel_IsLeftOut) {
  Machine machine = alike(2, 4);
  machine.numa_nodes.push_back(NumaNode{1, -1, ""});
  machine.gpus[1].at.numa = 1;
  const auto has_file = [](const PredictedRails& decision) {
    const std::vector<Remedy> list = remedies(decision);
    return std::any_of(list.begin(), list.end(), [](const Remedy& one) {
      return one.text.starts_with("set NCCL_TOPO_FILE");
    });
  };
  EXPECT_FALSE(has_file(scene_of(machine)));
  nccl::Settings all_levels;
  all_levels.gdr_level = PathClass::kSys;
  EXPECT_TRUE(has_file(scene_of(machine, all_levels)));
  EXPECT_TRUE(has_file(scene_of(alike(2, 4))));  // no switch is visible: PHB may be near
  machine = alike(2, 4);
  add_switch(&machine, bdf_of(64), Attachment{-1, 0, -1, -1});
  EXPECT_FALSE(has_file(scene_of(machine)));
}

}  // namespace
}  // namespace gdr::topology
