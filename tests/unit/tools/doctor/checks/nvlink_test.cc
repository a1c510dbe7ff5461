#include "tests/unit/tools/doctor/checks/inspected_machine.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

using topology::Machine;

TEST(Nvlink, EachCase_HasItsVerdict) {
  expect_worst<InspectedHost>(
      nvlink(), {{"equal", [](InspectedHost*) {}, Verdict::kOk, "", "8 of 8 GPUs have NVLinks"},
                 {"fewer",
                  [](InspectedHost* made) {
                    made->set([](Machine* machine) { machine->gpus[3].nvlinks[0].count -= 2; });
                  },
                  Verdict::kWarning, "GPU3", "16 NVLinks to NVSwitches"},
                 {"unknown",
                  [](InspectedHost* made) {
                    made->set([](Machine* machine) {
                      machine->gpu_links_known = false;
                      for (topology::Gpu& gpu : machine->gpus) gpu.nvlinks.clear();
                    });
                  },
                  Verdict::kUnknown},
                 kNoGpuCase,
                 kNoTopologyCase});
}

}  // namespace
}  // namespace gdr::tools::doctor
