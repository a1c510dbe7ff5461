#include "tests/unit/tools/doctor/checked_machine.h"

namespace gdr::tools::doctor {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

// The GPUs have that model, memory by NVML and largest BAR; 0 is an unknown memory.
auto gpus_with(const char* model, uint64_t memory, uint64_t bar) {
  return [=](InspectedHost* made) {
    changed([&](Machine* machine) {
      for (Gpu& gpu : machine->gpus) gpu.model = model;
    })(made);
    for (const Gpu& gpu : machine_of(made->host).gpus) {
      if (memory > 0) made->host.gpus.gpus[gpu.bdf].memory_bytes = memory;
      made->host.pci_states[gpu.bdf].largest_bar = bar;
    }
  };
}

TEST(Bar1, EachCase_HasItsVerdict) {
  constexpr char kModel[] = "NVIDIA H100 80GB HBM3";
  expect_worst<InspectedHost>(
      "bar1", {{"larger than the memory", gpus_with("", 80 * kGiB, 128 * kGiB), Verdict::kOk, "",
                "BAR1 is 128 GiB, and the memory 80 GiB"},
               {"smaller than those of peers",
                [](InspectedHost* made) {
                  gpus_with("", 80 * kGiB, 128 * kGiB)(made);
                  made->host.pci_states[machine_of(made->host).gpus[1].bdf].largest_bar = kGiB / 4;
                },
                Verdict::kWarning, "GPU1 (0000:15:00.0)",
                "BAR1 shows 0.25 GiB where its peers show 128 GiB", "above-4G decoding"},
               {"all small, by NVML",
                [](InspectedHost* made) {
                  gpus_with("", 80 * kGiB, 0)(made);
                  for (auto& [bdf, fact] : made->host.gpus.gpus) fact.bar1_bytes = 32 * kGiB;
                },
                Verdict::kWarning, "", "BAR1 shows 32 GiB of the 80 GiB of its memory"},
               {"all small, by the model's name", gpus_with(kModel, 0, kGiB / 4), Verdict::kWarning,
                "", "BAR1 shows 0.25 GiB of the 80 GB of its memory"},
               {"memory unknown", gpus_with("", 0, kGiB), Verdict::kUnknown, "",
                "BAR1 is 1 GiB, and the size of the memory unknown"},
               {"BAR unknown", gpus_with(kModel, 0, 0), Verdict::kUnknown, "", "", "mount /sys"},
               {"memory by the model's name", gpus_with(kModel, 0, 128 * kGiB), Verdict::kOk, "",
                "and the memory 80 GB by the model's name"},
               {"C2C",
                [](InspectedHost* made) {
                  changed([](Machine* machine) {
                    for (Gpu& gpu : machine->gpus) gpu.c2c_links = 10;
                  })(made);
                  for (auto& [bdf, state] : made->host.pci_states) state.largest_bar = kGiB / 4;
                },
                Verdict::kOk, "", "NVLink-C2C"},
               kNoGpuCase,
               kAbsentGpusCase,
               kNoTopologyCase});
}

}  // namespace
}  // namespace gdr::tools::doctor
