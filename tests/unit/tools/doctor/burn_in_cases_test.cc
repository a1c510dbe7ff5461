#include "tools/doctor/burn_in_cases.h"

#include <gmock/gmock.h>

#include "tests/unit/tools/doctor/made_host.h"
#include "tools/topo/inspect.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using LinkLayer = topology::Port::LinkLayer;

const BurnInShares& standard() { return default_burn_in_shares(); }

// Eight GPUs under four switches, each switch with an HCA of 400 Gb/s.
class BurnInCases : public ::testing::Test {
 protected:
  BurnInCases() {
    topo::InspectOptions options;
    options.from = std::string(GDR_TOPOLOGIES) + "/nccl-hgx-4nic.xml";
    made_.host.inspection = topo::inspect(options).value();
  }

  topology::RailDecision& decision() { return made_.host.inspection->decision; }

  void take_down(size_t number) {
    decision().plan.rails[number].usable = false;
    for (topology::GpuRails& gpu : decision().plan.gpus) {
      if (!gpu.rails.empty() && gpu.rails[0] == static_cast<int>(number)) gpu.rails.clear();
    }
  }

  topology::Port& port_of_rail(size_t number) {
    const topology::PortRef& ref = decision().plan.rails[number].port;
    topology::Hca& hca = decision().machine.hcas[static_cast<size_t>(ref.hca)];
    return hca.ports[static_cast<size_t>(ref.port)];
  }

  // Puts the rail's port into a subnet of InfiniBand, the upper half of its first GID.
  void set_subnet(size_t number, uint8_t subnet) {
    topology::Port& port = port_of_rail(number);
    port.link_layer = LinkLayer::kInfiniBand;
    transport::Gid gid{};
    gid[0] = 0xfe;
    gid[7] = subnet;
    gid[15] = static_cast<uint8_t>(number + 1);
    RdmaHca hca;
    hca.name = "mlx5_" + std::to_string(number);
    RdmaPort rdma_port;
    rdma_port.number = port.number;
    rdma_port.gids = {{{0, gid, transport::GidType::kIb}, ""}};
    hca.ports = {rdma_port};
    made_.host.ports.hcas.push_back(hca);
  }

  // The measurements with host memory.
  std::vector<std::string> plain_subjects(const std::vector<BurnInCase>& cases) {
    std::vector<std::string> subjects;
    for (const BurnInCase& one : cases) {
      if (!uses_gpu(one)) subjects.push_back(one.subject);
    }
    return subjects;
  }

  MadeHost made_;
};

TEST_F(BurnInCases, EveryRail_HasHostMemoryAndItsGpus) {
  // CUDA_VISIBLE_DEVICES=1
  made_.host.gpus.gpus[decision().machine.gpus[1].bdf].cuda_number = 0;
  const std::vector<BurnInCase> cases = cases_with_other_machine(made_.host, standard());
  ASSERT_EQ(cases.size(), 12u);
  EXPECT_EQ(cases[2].end.cuda_number, 0);
  EXPECT_FALSE(cases[1].end.cuda_number.has_value());
  EXPECT_EQ(cases[0].subject, "rail 0 mlx5_0:1 host memory");
  EXPECT_EQ(cases[0].end.share, 0.9);
  EXPECT_EQ(cases[1].subject, "rail 0 mlx5_0:1 GPU0 (PIX)");
  EXPECT_EQ(cases[2].end.gpu, 1u);
  EXPECT_EQ(cases[2].end.gpu_address, decision().machine.gpus[1].bdf.to_string());
  EXPECT_FALSE(cases[0].end.gpu.has_value());
  EXPECT_EQ(cases[0].end.gpu_address, "");
  EXPECT_GE(cases[0].end.cpus.size(), 2u);
  EXPECT_EQ(cases[11].end.device, 3);
  EXPECT_EQ(cases[11].end.gpu, 7u);
  EXPECT_GT(cases[11].end.port_gbits, 0);
  for (const BurnInCase& one : cases) EXPECT_FALSE(one.receiver.has_value());
}

TEST_F(BurnInCases, RailThatIsDown_IsLeftOutAndTakesNoDevice) {
  take_down(0);
  const std::vector<BurnInCase> cases = cases_with_other_machine(made_.host, standard());
  ASSERT_EQ(cases.size(), 9u);
  EXPECT_EQ(cases[0].end.device, 0);
  EXPECT_THAT(cases[0].subject, HasSubstr("rail 1 "));
}

TEST_F(BurnInCases, Loopback_IsOfEachRailByItself) {
  const std::vector<BurnInCase> cases = cases_of_loopback(made_.host, standard());
  ASSERT_EQ(cases.size(), 12u);
  EXPECT_EQ(cases[0].subject, "rail 0 mlx5_0:1 to itself, host memory");
  EXPECT_EQ(cases[1].subject, "rail 0 mlx5_0:1 GPU0 (PIX) to itself");
  EXPECT_EQ(cases[1].note, "");
  for (const BurnInCase& one : cases) EXPECT_FALSE(one.receiver.has_value());
}

TEST_F(BurnInCases, Ring_HasEachRailAsSenderAndAsReceiver) {
  const std::vector<BurnInCase> cases = cases_of_ring(made_.host, standard());
  ASSERT_EQ(cases.size(), 12u);
  EXPECT_THAT(plain_subjects(cases),
              ElementsAre("rail 0 mlx5_0:1 to rail 1 mlx5_1:1, host memory",
                          "rail 1 mlx5_1:1 to rail 2 mlx5_2:1, host memory",
                          "rail 2 mlx5_2:1 to rail 3 mlx5_3:1, host memory",
                          "rail 3 mlx5_3:1 to rail 0 mlx5_0:1, host memory"));
  EXPECT_EQ(cases[1].subject, "rail 0 mlx5_0:1 GPU0 (PIX) to rail 1 mlx5_1:1 GPU2 (PIX)");
  EXPECT_EQ(cases[2].subject, "rail 0 mlx5_0:1 GPU1 (PIX) to rail 1 mlx5_1:1 GPU3 (PIX)");
  EXPECT_EQ(cases[2].end.gpu, 1u);
  EXPECT_EQ(cases[2].receiver->gpu, 3u);
  EXPECT_EQ(cases[2].receiver->device, 1);
  EXPECT_EQ(to_itself(cases[2]).subject, "rail 0 mlx5_0:1 GPU1 (PIX) to itself");
}

TEST_F(BurnInCases, RingWithARailThatIsDown_GoesPastIt) {
  take_down(1);
  const std::vector<BurnInCase> cases = cases_of_ring(made_.host, standard());
  EXPECT_THAT(plain_subjects(cases),
              ElementsAre("rail 0 mlx5_0:1 to rail 2 mlx5_2:1, host memory",
                          "rail 2 mlx5_2:1 to rail 3 mlx5_3:1, host memory",
                          "rail 3 mlx5_3:1 to rail 0 mlx5_0:1, host memory"));
  EXPECT_EQ(cases[0].receiver->device, 1);  // the plugin does not count it
}

TEST_F(BurnInCases, RailWithFewerGpus_BeginsAgainOrHasHostMemory) {
  decision().plan.gpus[3].rails.clear();                              // of rail 1
  for (size_t gpu : {4, 5}) decision().plan.gpus[gpu].rails.clear();  // of rail 2
  std::vector<std::string> subjects;
  for (const BurnInCase& one : cases_of_ring(made_.host, standard())) {
    if (uses_gpu(one)) subjects.push_back(one.subject);
  }
  EXPECT_THAT(subjects, ElementsAre("rail 0 mlx5_0:1 GPU0 (PIX) to rail 1 mlx5_1:1 GPU2 (PIX)",
                                    "rail 0 mlx5_0:1 GPU1 (PIX) to rail 1 mlx5_1:1 GPU2 (PIX)",
                                    "rail 1 mlx5_1:1 GPU2 (PIX) to rail 2 mlx5_2:1 host memory",
                                    "rail 2 mlx5_2:1 host memory to rail 3 mlx5_3:1 GPU6 (PIX)",
                                    "rail 2 mlx5_2:1 host memory to rail 3 mlx5_3:1 GPU7 (PIX)",
                                    "rail 3 mlx5_3:1 GPU6 (PIX) to rail 0 mlx5_0:1 GPU0 (PIX)",
                                    "rail 3 mlx5_3:1 GPU7 (PIX) to rail 0 mlx5_0:1 GPU1 (PIX)"));
}

TEST_F(BurnInCases, RailsOfSeveralSubnets_AreARingEach) {
  for (size_t rail : {0, 1, 2}) set_subnet(rail, rail == 1 ? 2 : 1);
  port_of_rail(3).link_layer = LinkLayer::kEthernet;
  const std::vector<BurnInCase> cases = cases_of_ring(made_.host, standard());
  EXPECT_THAT(plain_subjects(cases), ElementsAre("rail 0 mlx5_0:1 to rail 2 mlx5_2:1, host memory",
                                                 "rail 1 mlx5_1:1 to itself, host memory",
                                                 "rail 2 mlx5_2:1 to rail 0 mlx5_0:1, host memory",
                                                 "rail 3 mlx5_3:1 to itself, host memory"));
  EXPECT_EQ(cases[3].note,
            "without the cable, as no other usable rail is in its fabric (InfiniBand, "
            "subnet fe00000000000002)");
  EXPECT_THAT(cases[9].note, HasSubstr("(Ethernet)"));
}

TEST_F(BurnInCases, OneRail_SendsToItselfAndSaysSo) {
  for (size_t rail : {1, 2, 3}) take_down(rail);
  const std::vector<BurnInCase> cases = cases_of_ring(made_.host, standard());
  ASSERT_EQ(cases.size(), 3u);
  EXPECT_EQ(cases[2].subject, "rail 0 mlx5_0:1 GPU1 (PIX) to itself");
  for (const BurnInCase& one : cases) {
    EXPECT_EQ(one.note, "without the cable, as this machine has no other usable rail");
  }
}

TEST_F(BurnInCases, OneRailOfAList_NamesWhatTheListLeavesOut) {
  for (size_t rail : {1, 2, 3}) take_down(rail);
  made_.host.inspection->not_offered = {"efa_0:1 is an Elastic Fabric Adapter (EFA)",
                                        "mlx5_4:1 is excluded by NCCL_IB_HCA",
                                        "mlx5_5:1 is excluded by NCCL_IB_HCA"};
  EXPECT_THAT(
      cases_of_ring(made_.host, standard()).at(0).note,
      ::testing::EndsWith("no other usable rail (NCCL_IB_HCA leaves out mlx5_4:1, mlx5_5:1)"));
}

TEST_F(BurnInCases, MachineWithoutATopology_HasNone) {
  made_.host.inspection.reset();
  EXPECT_TRUE(cases_with_other_machine(made_.host, standard()).empty());
  EXPECT_TRUE(cases_of_loopback(made_.host, standard()).empty());
  EXPECT_TRUE(cases_of_ring(made_.host, standard()).empty());
}

TEST(BurnInShares, Text_OverridesTheDefault) {
  const Result<BurnInShares> shares = parse_burn_in_shares("PIX=95,SYS=40.5");
  ASSERT_TRUE(shares.has_value());
  EXPECT_EQ(shares->at("PIX"), 0.95);
  EXPECT_EQ(shares->at("SYS"), 0.405);
  EXPECT_EQ(shares->at("PHB"), 0.8);
  for (const char* wrong : {"PIX", "PIX=", "NEAR=90", "PIX=0", "PIX=101", "PIX=9x", "PIX=nan"}) {
    const Result<BurnInShares> bad = parse_burn_in_shares(wrong);
    ASSERT_FALSE(bad.has_value()) << wrong;
    EXPECT_THAT(bad.error().text, HasSubstr(wrong));
  }
  EXPECT_FALSE(parse_burn_in_shares("").has_value());
}

}  // namespace
}  // namespace gdr::tools::doctor
