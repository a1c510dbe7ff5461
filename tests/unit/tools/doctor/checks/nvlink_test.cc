#include "tests/unit/tools/doctor/checked_machine.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

NvLink to_gpu(const Machine& machine, size_t gpu, int count) {
  return NvLink{NvLink::To::kGpu, machine.gpus[gpu].bdf, count};
}

// A mesh in which each GPU has two links to its neighbours.
void make_ring(Machine* machine) {
  const size_t gpus = machine->gpus.size();
  for (size_t i = 0; i < gpus; ++i) {
    machine->gpus[i].nvlinks = {to_gpu(*machine, (i + 1) % gpus, 2),
                                to_gpu(*machine, (i + gpus - 1) % gpus, 2)};
  }
}

// Pairs of GPUs with four links; only one GPU of each pair has another link to the next pair.
void make_uneven_mesh(Machine* machine) {
  for (size_t i = 0; i < machine->gpus.size(); ++i) {
    machine->gpus[i].nvlinks = {to_gpu(*machine, i ^ 1, 4)};
    if (i % 2 == 0) machine->gpus[i].nvlinks.push_back(to_gpu(*machine, i ^ 2, 1));
  }
}

// Four GPUs with four links between each two.
void make_full_mesh(Machine* machine) {
  machine->gpus.resize(4);
  for (size_t i = 0; i < 4; ++i) {
    machine->gpus[i].nvlinks.clear();
    for (size_t j = 0; j < 4; ++j) {
      if (i != j) machine->gpus[i].nvlinks.push_back(to_gpu(*machine, j, 4));
    }
  }
}

void give_c2c(Machine* machine) {
  for (Gpu& gpu : machine->gpus) gpu.c2c_links = 10;
}

TEST(CheckGpuLinks, LinksBelowThoseOfPeers_NameTheGpu) {
  expect_found({
      {"fewer to switches",
       [](Machine* machine) { machine->gpus[5].nvlinks[0].count = 16; },
       {"nvlink: GPU5 (0000:55:00.0): 16 NVLinks to NVSwitches, where GPU0, GPU1, GPU2 and 4 more "
        "have 18"}},
      {"none",
       [](Machine* machine) { machine->gpus[5].nvlinks.clear(); },
       {"nvlink: GPU5 (0000:55:00.0): no NVLinks"}},
      {"none, where they are unknown",
       [](Machine* machine) {
         machine->gpus[5].nvlinks.clear();
         machine->gpu_links_known = false;
       },
       {}},
      {"ring", make_ring, {}},
      {"ring with a link to GPU7 instead of GPU5: the counts are equal, the targets are not",
       [](Machine* machine) {
         make_ring(machine);
         machine->gpus[4].nvlinks[0].gpu = machine->gpus[7].bdf;
       },
       {"nvlink: GPU7 (0000:75:00.0): no NVLinks to GPU4",
        "nvlink: GPU4 (0000:53:00.0): no NVLinks to GPU5"}},
      {"mesh that gives half of the GPUs fewer", make_uneven_mesh, {}},
      {"mesh with a pair below that",
       [](Machine* machine) {
         make_uneven_mesh(machine);
         machine->gpus[1].nvlinks[0].count = machine->gpus[0].nvlinks[0].count = 3;
       },
       {"nvlink: GPU1 (0000:15:00.0): 3 NVLinks to GPUs, where GPU2, GPU4, GPU6 have 5"}},
      {"C2C", give_c2c, {}},
      {"C2C lost",
       [](Machine* machine) {
         give_c2c(machine);
         machine->gpus[6].c2c_links = 0;
       },
       {"c2c: GPU6 (0000:73:00.0): no NVLink-C2C links to its CPU, where "}},
  });
}

TEST(CheckGpuLinks, LinkThatAFullMeshLacks_IsNamedAtBothEnds) {
  Machine machine = good_machine();
  make_full_mesh(&machine);
  machine.gpus[0].nvlinks[0].count = machine.gpus[1].nvlinks[0].count = 3;
  const std::vector<std::string> found = found_on(machine);
  EXPECT_THAT(found, Contains(HasSubstr("nvlink: GPU0 (0000:13:00.0): 11 NVLinks to GPUs")));
  EXPECT_THAT(found, Contains(HasSubstr("nvlink: GPU1 (0000:15:00.0): 11 NVLinks to GPUs")));
  EXPECT_THAT(found, Each(EndsWith("first the one with the fewest")));
}

TEST(CheckGpuLinks, OneOfTwoGpusWithFewerNvlinks_IsNamed) {
  for (NvLink::To to : {NvLink::To::kSwitch, NvLink::To::kGpu}) {
    Machine machine = good_machine();
    machine.gpus.resize(2);
    for (size_t i = 0; i < 2; ++i) {
      machine.gpus[i].nvlinks = {NvLink{to, {}, 4}};
      if (to == NvLink::To::kGpu) machine.gpus[i].nvlinks[0].gpu = machine.gpus[1 - i].bdf;
    }
    EXPECT_THAT(found_on(machine), Not(Contains(HasSubstr("nvlink: "))));
    machine.gpus[1].nvlinks[0].count = 3;
    EXPECT_THAT(found_on(machine),
                Contains(HasSubstr("nvlink: GPU1 (0000:15:00.0): 3 NVLinks to")));
  }
}

// Bridges join the GPUs in pairs, so that half of them without links are no design.
TEST(CheckGpuLinks, LostBridgeOfAPair_IsNamedAtBothEnds) {
  Machine pairs = good_machine();
  for (size_t i = 0; i < pairs.gpus.size(); ++i) pairs.gpus[i].nvlinks = {to_gpu(pairs, i ^ 1, 12)};
  EXPECT_THAT(found_on(pairs), IsEmpty());
  for (int left : {0, 4, 8}) {
    for (size_t lost : {2, 4}) {
      Machine machine = pairs;
      for (size_t i = 0; i < lost; ++i) {
        machine.gpus[i].nvlinks[0].count = left;
        if (left == 0) machine.gpus[i].nvlinks.clear();
      }
      const std::vector<std::string> found = found_on(machine);
      EXPECT_EQ(found.size(), lost);
      EXPECT_THAT(found, Contains(AllOf(HasSubstr("nvlink: GPU1 (0000:15:00.0): "),
                                        HasSubstr("NVLinks to GPUs, where GPU"),
                                        HasSubstr("reseat a bridge"))));
    }
  }
}

// A file of several hosts may show those of one.
TEST(CheckGpuLinks, NvlinksToAGpuThatIsNotThere_NameIt) {
  Machine machine = good_machine();
  make_ring(&machine);
  machine.gpus.pop_back();
  const auto lost = Contains(
      HasSubstr("nvlink: 0000:75:00.0: the machine shows no GPU there, to which GPU0, GPU6 have "));
  EXPECT_THAT(found_on(machine), lost);
  machine.hosts = 2;
  EXPECT_THAT(found_on(machine), Not(lost));
}

TEST(Nvlink, EachCase_HasItsVerdict) {
  expect_worst<InspectedHost>(
      "nvlink", {{"equal", changed([](Machine*) {}), Verdict::kOk, "", "8 of 8 GPUs have NVLinks"},
                 {"unknown", changed([](Machine* machine) {
                    machine->gpu_links_known = false;
                    for (Gpu& gpu : machine->gpus) gpu.nvlinks.clear();
                  }),
                  Verdict::kUnknown},
                 kNoGpuCase,
                 kAbsentGpusCase,
                 kNoTopologyCase});
}

}  // namespace
}  // namespace gdr::tools::doctor
