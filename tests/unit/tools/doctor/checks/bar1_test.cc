#include <gmock/gmock.h>

#include "tests/unit/tools/doctor/checks/inspected_machine.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kGiB = uint64_t{1} << 30;

// All GPUs have that memory, as NVML reports it.
void set_memory(InspectedHost* made, uint64_t bytes) {
  for (const topology::Gpu& gpu : made->machine().gpus) {
    made->host.gpus.gpus[gpu.bdf].memory_bytes = bytes;
  }
}

TEST(Bar1, LargerThanTheMemory_IsOk) {
  InspectedHost made;
  set_memory(&made, 80 * kGiB);
  const Observations seen = bar1().run(made.host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kOk);
  EXPECT_EQ(seen[0].evidence, "BAR1 is 128 GiB, and the memory 80 GiB");
}

TEST(Bar1, SmallerThanTheMemory_IsAWarningOfThatGpu) {
  InspectedHost made;
  set_memory(&made, 80 * kGiB);
  made.host.pci_states[made.machine().gpus[1].bdf].largest_bar = kGiB / 4;
  const Observations seen = bar1().run(made.host);
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[1].verdict, Verdict::kWarning);
  EXPECT_EQ(seen[1].subject, "GPU1 (0000:15:00.0)");
  EXPECT_THAT(seen[1].evidence, HasSubstr("BAR1 shows 0.25 GiB"));
  EXPECT_THAT(seen[1].fix, HasSubstr("above-4G decoding"));
}

TEST(Bar1, AllSmall_IsAWarningByTheMemoryOfNvml) {
  InspectedHost made;
  set_memory(&made, 80 * kGiB);
  for (auto& [bdf, state] : made.host.pci_states) state.largest_bar = 0;
  for (auto& [bdf, fact] : made.host.gpus.gpus) fact.bar1_bytes = 32 * kGiB;
  const Observations seen = bar1().run(made.host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kWarning);
  EXPECT_EQ(seen[0].evidence, "BAR1 shows 32 GiB of the 80 GiB of its memory");
}

TEST(Bar1, OfUnknownMemory_IsUnknownUnlessTheModelNamesIt) {
  InspectedHost made;
  EXPECT_EQ(verdict_of(bar1(), made.host), Verdict::kUnknown);
  InspectedHost named([](topology::Machine* machine) {
    for (topology::Gpu& gpu : machine->gpus) gpu.model = "NVIDIA H100 80GB HBM3";
  });
  EXPECT_EQ(verdict_of(bar1(), named.host), Verdict::kOk);
}

TEST(Bar1, OfAGpuWithC2c_IsOkWhateverItsSize) {
  InspectedHost made([](topology::Machine* machine) {
    for (topology::Gpu& gpu : machine->gpus) gpu.c2c_links = 10;
  });
  set_memory(&made, 96 * kGiB);
  for (auto& [bdf, state] : made.host.pci_states) state.largest_bar = kGiB / 4;
  EXPECT_EQ(verdict_of(bar1(), made.host), Verdict::kOk);
}

TEST(Bar1, WithoutAGpu_IsOkAndWithoutATopologyUnknown) {
  InspectedHost made([](topology::Machine* machine) { machine->gpus.clear(); });
  EXPECT_EQ(verdict_of(bar1(), made.host), Verdict::kNothing);
  EXPECT_EQ(verdict_of(bar1(), MadeHost().host), Verdict::kUnknown);
}

}  // namespace
}  // namespace gdr::tools::doctor
