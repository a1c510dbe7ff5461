#include <fmt/format.h>

#include <algorithm>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/host.h"
#include "tools/doctor/nvidia_files.h"
#include "tools/doctor/silent_file.h"
#include "tools/topo/checks.h"

namespace gdr::tools::doctor {
namespace {

bool has_nvlink(const topology::Gpu& gpu) { return !gpu.nvlinks.empty() || gpu.c2c_links > 0; }

Observations run_nvlink(const Host& host) {
  if (!host.inspection.has_value()) {
    return {unknown("", "the GPUs are unknown: " + topo::clean_text(host.inspection_error),
                    "mount /sys")};
  }
  const topology::Machine& machine = host.inspection->decision.machine;
  if (machine.gpus.empty())
    return {nothing_on(host, "there is no GPU, whose NVLinks could be looked at")};
  Observations seen = findings_of(host, nvlink().kinds);
  if (!seen.empty()) return seen;
  const auto linked = std::count_if(machine.gpus.begin(), machine.gpus.end(), has_nvlink);
  if (!machine.gpu_links_known) {
    return {
        unknown("",
                fmt::format("NVLinks of {} of {} GPUs are unknown",
                            machine.gpus.size() - static_cast<size_t>(linked), machine.gpus.size()),
                needs_nvml(host))};
  }
  if (linked == 0) return {ok("", "no GPU has NVLinks (NVML)")};
  return {ok("", fmt::format("{} of {} GPUs have NVLinks that are up, and none has fewer than its "
                             "peers (NVML)",
                             linked, machine.gpus.size()))};
}

}  // namespace

Check nvlink() {
  return {.name = "nvlink",
          .looks_at = "whether a GPU has fewer NVLinks or NVLink-C2C links that are up than others",
          .why =
              "A link that is down slows every collective on the node, and GPUs that reach their "
              "rail over it (PXN, C2C).",
          .cost = Cost::kSlows,
          .kinds = {FindingKind::kNvlink, FindingKind::kC2c},
          .of_silent_file = silent_file::of_nvlinks,
          .run = run_nvlink};
}

}  // namespace gdr::tools::doctor
