#include <gmock/gmock.h>

#include "tests/unit/tools/doctor/checks/inspected_machine.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

TEST(Nvlink, EqualLinks_AreOk) {
  InspectedHost made;
  EXPECT_EQ(verdict_of(nvlink(), made.host), Verdict::kOk);
}

TEST(Nvlink, GpuWithFewerLinks_IsAWarningOfThatGpu) {
  InspectedHost made([](topology::Machine* machine) { machine->gpus[3].nvlinks[0].count -= 2; });
  const Observations seen = nvlink().run(made.host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kWarning);
  EXPECT_THAT(seen[0].subject, ::testing::HasSubstr("GPU3"));
}

TEST(Nvlink, UnknownLinks_AreUnknown) {
  InspectedHost made([](topology::Machine* machine) {
    machine->gpu_links_known = false;
    for (topology::Gpu& gpu : machine->gpus) gpu.nvlinks.clear();
  });
  EXPECT_EQ(verdict_of(nvlink(), made.host), Verdict::kUnknown);
  EXPECT_EQ(verdict_of(nvlink(), MadeHost().host), Verdict::kUnknown);
}

TEST(Nvlink, WithoutAGpu_IsOk) {
  InspectedHost made([](topology::Machine* machine) { machine->gpus.clear(); });
  EXPECT_EQ(verdict_of(nvlink(), made.host), Verdict::kNothing);
}

}  // namespace
}  // namespace gdr::tools::doctor
