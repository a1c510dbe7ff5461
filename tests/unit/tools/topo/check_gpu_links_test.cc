// NVLink and NVLink-C2C.
#include <gmock/gmock.h>

#include "tests/unit/tools/topo/checked_machine.h"

namespace gdr::tools::topo {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(Check, GpuWithFewerNvlinks_IsNamed) {
  EXPECT_THAT(faults_with([](Machine* machine) { machine->gpus[5].nvlinks[0].count = 16; }),
              ElementsAre(AllOf(HasSubstr("nvlink: GPU5 (0000:55:00.0): 16 NVLinks to NVSwitches"),
                                HasSubstr("GPU0, GPU1, GPU2 and 4 more have 18"))));
}

TEST(Check, GpuWithoutNvlinks_IsNamedOnlyWhereTheyAreKnown) {
  auto remove_links = [](Machine* machine) { machine->gpus[5].nvlinks.clear(); };
  EXPECT_THAT(faults_with(remove_links), ElementsAre(HasSubstr("nvlink: GPU5 (0000:55:00.0): no")));
  EXPECT_THAT(faults_with([&](Machine* machine) {
                remove_links(machine);
                machine->gpu_links_known = false;
              }),
              IsEmpty());
}

// A mesh in which each GPU has two links to its neighbours.
void make_ring(Machine* machine) {
  const size_t gpus = machine->gpus.size();
  for (size_t i = 0; i < gpus; ++i) {
    machine->gpus[i].nvlinks = {
        NvLink{NvLink::To::kGpu, machine->gpus[(i + 1) % gpus].bdf, 2},
        NvLink{NvLink::To::kGpu, machine->gpus[(i + gpus - 1) % gpus].bdf, 2}};
  }
}

TEST(Check, NvlinkThatTheOtherGpuDoesNotHave_IsNamed) {
  EXPECT_THAT(faults_with(make_ring), IsEmpty());
  // GPU4's link goes to GPU7 instead of GPU5: the counts are equal, the targets are not.
  const std::vector<std::string> faults = faults_with([](Machine* machine) {
    make_ring(machine);
    machine->gpus[4].nvlinks[0].gpu = machine->gpus[7].bdf;
  });
  EXPECT_THAT(faults, ElementsAre(HasSubstr("nvlink: GPU7 (0000:75:00.0): no NVLinks to GPU4"),
                                  HasSubstr("nvlink: GPU4 (0000:53:00.0): no NVLinks to GPU5")));
}

// Pairs of GPUs with four links; only one GPU of each pair has another link to the next pair.
void make_uneven_mesh(Machine* machine) {
  const size_t gpus = machine->gpus.size();
  for (size_t i = 0; i < gpus; ++i) {
    machine->gpus[i].nvlinks = {NvLink{NvLink::To::kGpu, machine->gpus[i ^ 1].bdf, 4}};
    if (i % 2 == 0) {
      machine->gpus[i].nvlinks.push_back(NvLink{NvLink::To::kGpu, machine->gpus[i ^ 2].bdf, 1});
    }
  }
}

TEST(Check, MeshThatGivesHalfOfTheGpusFewerLinks_IsANote) {
  Machine machine = good_machine();
  make_uneven_mesh(&machine);
  const CheckReport report = report_on(machine);
  EXPECT_THAT(faults_of(report), IsEmpty());
  EXPECT_THAT(report.notes, Contains(HasSubstr("GPU1, GPU3, GPU5, GPU7: fewer NVLinks")));
  machine.gpus[1].nvlinks[0].count = machine.gpus[0].nvlinks[0].count = 3;
  EXPECT_THAT(faults_of(report_on(machine)),
              ElementsAre(HasSubstr("nvlink: GPU1 (0000:15:00.0): 3 NVLinks to GPUs, where GPU2, "
                                    "GPU4, GPU6 have 5")));
}

// Four GPUs with four links between each two, one of which both of its ends have lost.
TEST(Check, LinkThatAFullMeshLacks_IsNamedAtBothEnds) {
  Machine machine = good_machine();
  machine.gpus.resize(4);
  for (Gpu& gpu : machine.gpus) {
    gpu.nvlinks.clear();
    for (const Gpu& other : machine.gpus) {
      if (other.bdf == gpu.bdf) continue;
      gpu.nvlinks.push_back(NvLink{NvLink::To::kGpu, other.bdf, 4});
    }
  }
  machine.gpus[0].nvlinks[0].count = machine.gpus[1].nvlinks[0].count = 3;
  const std::vector<std::string> faults = faults_of(report_on(machine));
  EXPECT_THAT(faults, Contains(HasSubstr("nvlink: GPU0 (0000:13:00.0): 11 NVLinks to GPUs")));
  EXPECT_THAT(faults, Contains(HasSubstr("nvlink: GPU1 (0000:15:00.0): 11 NVLinks to GPUs")));
}

TEST(Check, OneOfTwoGpusWithFewerNvlinks_IsNamed) {
  for (NvLink::To to : {NvLink::To::kSwitch, NvLink::To::kGpu}) {
    Machine machine = good_machine();
    machine.gpus.resize(2);
    for (size_t i = 0; i < 2; ++i) {
      machine.gpus[i].nvlinks = {NvLink{to, {}, 4}};
      if (to == NvLink::To::kGpu) machine.gpus[i].nvlinks[0].gpu = machine.gpus[1 - i].bdf;
    }
    EXPECT_THAT(faults_of(report_on(machine)), Not(Contains(HasSubstr("nvlink: "))));
    machine.gpus[1].nvlinks[0].count = 3;
    EXPECT_THAT(faults_of(report_on(machine)),
                Contains(HasSubstr("nvlink: GPU1 (0000:15:00.0): 3 NVLinks to")));
  }
}

// Bridges join the GPUs in pairs, so that half of them without links are no design.
TEST(Check, LostBridgeOfAPair_IsNamedAtBothEnds) {
  auto make_pairs = [](Machine* machine) {
    for (size_t i = 0; i < machine->gpus.size(); ++i) {
      machine->gpus[i].nvlinks = {NvLink{NvLink::To::kGpu, machine->gpus[i ^ 1].bdf, 12}};
    }
  };
  EXPECT_THAT(faults_with(make_pairs), IsEmpty());
  for (int left : {0, 4, 8}) {
    for (size_t lost : {2, 4}) {
      const std::vector<std::string> faults = faults_with([&](Machine* machine) {
        make_pairs(machine);
        for (size_t i = 0; i < lost; ++i) {
          machine->gpus[i].nvlinks[0].count = left;
          if (left == 0) machine->gpus[i].nvlinks.clear();
        }
      });
      EXPECT_EQ(faults.size(), lost);
      EXPECT_THAT(faults, Contains(AllOf(HasSubstr("nvlink: GPU1 (0000:15:00.0): "),
                                         HasSubstr("NVLinks to GPUs, where GPU"),
                                         EndsWith("replace the bridge"))));
    }
  }
}

TEST(Check, NvlinksToAGpuThatIsNotThere_NameIt) {
  auto lose = [](Machine* machine) {
    make_ring(machine);
    machine->gpus.pop_back();
  };
  EXPECT_THAT(faults_with(lose),
              Contains(HasSubstr("nvlink: 0000:75:00.0: the machine shows no GPU there, to which "
                                 "GPU0, GPU6 have NVLinks")));
  EXPECT_THAT(faults_with([&](Machine* machine) {
                lose(machine);
                machine->hosts = 2;
              }),
              Not(Contains(HasSubstr("the machine shows no GPU there"))));
}

TEST(Check, C2cMissingOnOneGpu_IsNamed) {
  auto with_c2c = [](Machine* machine) {
    for (Gpu& gpu : machine->gpus) gpu.c2c_links = 10;
  };
  EXPECT_THAT(faults_with(with_c2c), IsEmpty());
  EXPECT_THAT(faults_with([&](Machine* machine) {
                with_c2c(machine);
                machine->gpus[6].c2c_links = 0;
              }),
              ElementsAre(AllOf(HasSubstr("c2c: GPU6 (0000:73:00.0): no NVLink-C2C links"),
                                HasSubstr("have 10"))));
}

}  // namespace
}  // namespace gdr::tools::topo
