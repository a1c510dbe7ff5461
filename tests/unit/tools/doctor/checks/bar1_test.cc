#include "tests/unit/tools/doctor/checks/inspected_machine.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

using topology::Machine;

constexpr uint64_t kGiB = uint64_t{1} << 30;

// All GPUs have that memory, as NVML reports it.
void set_memory(InspectedHost* made, uint64_t bytes) {
  for (const topology::Gpu& gpu : made->machine().gpus) {
    made->host.gpus.gpus[gpu.bdf].memory_bytes = bytes;
  }
}

void set_bars(InspectedHost* made, uint64_t bytes) {
  for (auto& [bdf, state] : made->host.pci_states) state.largest_bar = bytes;
}

void name_models(InspectedHost* made, const char* model) {
  made->set([&](Machine* machine) {
    for (topology::Gpu& gpu : machine->gpus) gpu.model = model;
  });
}

TEST(Bar1, EachCase_HasItsVerdict) {
  expect_worst<InspectedHost>(
      bar1(),
      {{"larger than the memory", [](InspectedHost* made) { set_memory(made, 80 * kGiB); },
        Verdict::kOk, "", "BAR1 is 128 GiB, and the memory 80 GiB"},
       {"smaller than those of peers",
        [](InspectedHost* made) {
          set_memory(made, 80 * kGiB);
          made->host.pci_states[made->machine().gpus[1].bdf].largest_bar = kGiB / 4;
        },
        Verdict::kWarning, "GPU1 (0000:15:00.0)", "BAR1 shows 0.25 GiB", "above-4G decoding"},
       {"all small, by NVML",
        [](InspectedHost* made) {
          set_memory(made, 80 * kGiB);
          set_bars(made, 0);
          for (auto& [bdf, fact] : made->host.gpus.gpus) fact.bar1_bytes = 32 * kGiB;
        },
        Verdict::kWarning, "", "BAR1 shows 32 GiB of the 80 GiB of its memory"},
       {"all small, by the model's name",
        [](InspectedHost* made) {
          name_models(made, "NVIDIA H100 80GB HBM3");
          set_bars(made, kGiB / 4);
        },
        Verdict::kWarning, "", "0.25 GiB of the 80 GB of its memory"},
       {"memory unknown", [](InspectedHost*) {}, Verdict::kUnknown},
       {"memory by the model's name",
        [](InspectedHost* made) { name_models(made, "NVIDIA H100 80GB HBM3"); }, Verdict::kOk},
       {"C2C",
        [](InspectedHost* made) {
          made->set([](Machine* machine) {
            for (topology::Gpu& gpu : machine->gpus) gpu.c2c_links = 10;
          });
          set_memory(made, 96 * kGiB);
          set_bars(made, kGiB / 4);
        },
        Verdict::kOk},
       kNoGpuCase,
       kNoTopologyCase});
}

}  // namespace
}  // namespace gdr::tools::doctor
