#include <fmt/format.h>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/host.h"
#include "tools/doctor/joined.h"
#include "tools/doctor/nvidia_files.h"
#include "tools/topo/checks.h"
#include "tools/topo/small_bars.h"

namespace gdr::tools::doctor {
namespace {

constexpr double kBar1GiB = 1024.0 * 1024 * 1024;

topo::GpuMemory memory_behind_bar1(const GpuFacts& facts) {
  topo::GpuMemory memory;
  for (const auto& [bdf, fact] : facts.gpus) {
    if (fact.memory_bytes.has_value()) memory[bdf] = *fact.memory_bytes;
  }
  return memory;
}

// sysfs shows every BAR; NVML its BAR1, which is used where sysfs is not mounted.
topo::PciStates states_with_bar1(const Host& host) {
  topo::PciStates states = host.pci_states;
  for (const auto& [bdf, fact] : host.gpus.gpus) {
    if (states[bdf].largest_bar == 0) states[bdf].largest_bar = fact.bar1_bytes.value_or(0);
  }
  return states;
}

Observation bar1_of(const topology::Gpu& gpu, const std::string& name, uint64_t bar,
                    const topo::GpuMemory& memory, const std::string& needs) {
  if (gpu.c2c_links > 0) {
    return ok(name, "it is mapped over NVLink-C2C, so that the size of its BAR1 means nothing");
  }
  if (bar == 0) return unknown(name, "the size of its BAR1 is unknown", "mount /sys");
  const double shown = static_cast<double>(bar) / kBar1GiB;
  const auto known = memory.find(gpu.bdf);
  if (known != memory.end()) {
    return ok(name, fmt::format("BAR1 is {:.4g} GiB, and the memory {:.4g} GiB", shown,
                                static_cast<double>(known->second) / kBar1GiB));
  }
  if (const double gigabytes = topo::gigabytes_in(gpu.model); gigabytes > 0) {
    return ok(name, fmt::format("BAR1 is {:.4g} GiB, and the memory {:.0f} GB by the model's name",
                                shown, gigabytes));
  }
  return unknown(name, fmt::format("BAR1 is {:.4g} GiB, and the size of the memory unknown", shown),
                 needs);
}

Observations run_bar1(const Host& host) {
  if (!host.inspection.has_value()) {
    return {unknown("", "the GPUs are unknown: " + topo::clean_text(host.inspection_error),
                    "mount /sys")};
  }
  const topology::Machine& machine = host.inspection->decision.machine;
  if (machine.gpus.empty())
    return {nothing_on(host, "there is no GPU, whose BAR1 could be looked at")};
  const topo::PciStates states = states_with_bar1(host);
  const topo::GpuMemory memory = memory_behind_bar1(host.gpus);
  std::map<size_t, std::string> small;
  for (const topo::SmallBar& one : topo::small_bars(machine, states, memory)) {
    small[one.gpu] = one.text;
  }
  Observations seen;
  for (size_t i = 0; i < machine.gpus.size(); ++i) {
    const std::string name = topo::gpu_name(machine, i);
    const auto state = states.find(machine.gpus[i].bdf);
    const uint64_t bar = state == states.end() ? 0 : state->second.largest_bar;
    seen.push_back(small.count(i) > 0
                       ? warning(name, "BAR1 " + small[i], topo::kFixOfSmallBar)
                       : bar1_of(machine.gpus[i], name, bar, memory, needs_nvml(host)));
  }
  return with_joined_subjects(std::move(seen));
}

}  // namespace

Check bar1() {
  return {.name = "bar1",
          .looks_at = "the size of each GPU's BAR1, by which HCAs access its memory",
          .why =
              "Where BAR1 is smaller than the memory, the registration of large buffers fails "
              "with EINVAL or ENOMEM once it is full, and their data goes through host memory.",
          .cost = Cost::kRisk,
          .kinds = {FindingKind::kBar},
          .run = run_bar1};
}

}  // namespace gdr::tools::doctor
