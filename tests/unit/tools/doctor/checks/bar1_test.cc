#include "tests/unit/tools/doctor/checked_machine.h"

namespace gdr::tools::doctor {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

// The GPUs have that model and largest BAR.
auto gpus_with(const char* model, uint64_t bar) {
  return [=](InspectedHost* made) {
    changed([&](Machine* machine) {
      for (Gpu& gpu : machine->gpus) gpu.model = model;
    })(made);
    for (const Gpu& gpu : machine_of(made->host).gpus) {
      made->host.pci_states[gpu.bdf].largest_bar = bar;
    }
  };
}

TEST(Bar1, EachCase_HasItsVerdict) {
  constexpr char kModel[] = "NVIDIA H100 80GB HBM3";
  expect_worst<InspectedHost>(
      "bar1", {{"larger than the memory", gpus_with(kModel, 128 * kGiB), Verdict::kOk, "",
                "BAR1 is 128 GiB"},
               {"smaller than those of peers",
                [](InspectedHost* made) {
                  gpus_with("", 128 * kGiB)(made);
                  made->host.pci_states[machine_of(made->host).gpus[1].bdf].largest_bar = 64 * kGiB;
                },
                Verdict::kWarning, "GPU1 (0000:15:00.0)",
                "BAR1 is 64 GiB, where its peers have 128 GiB", "above-4G decoding"},
               {"all smaller than the memory", gpus_with(kModel, 32 * kGiB), Verdict::kWarning, "",
                "BAR1 is 32 GiB, the memory 80 GB by the model's name"},
               {"small, by NVML",
                [](InspectedHost* made) {
                  changed([](Machine* machine) {
                    for (Gpu& gpu : machine->gpus) gpu.bar1_bytes = kGiB / 4;
                  })(made);
                  for (auto& [bdf, state] : made->host.pci_states) state.largest_bar = 0;
                },
                Verdict::kWarning, "", "BAR1 is 0.25 GiB"},
               {"memory unknown", gpus_with("NVIDIA H200", 256 * kGiB), Verdict::kOk, "",
                "BAR1 is 256 GiB"},
               {"memory unknown and the window in between", gpus_with("NVIDIA H200", 16 * kGiB),
                Verdict::kUnknown, "", "BAR1 is 16 GiB, and", "nvidia-smi"},
               {"BAR unknown", gpus_with(kModel, 0), Verdict::kUnknown, "", "", "mount /sys"},
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
