#include "tools/topo/small_bars.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace gdr::tools::topo {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

// Bytes that a BAR should show, and why.
struct ExpectedBar {
  double bytes = 0;  // 0: unknown
  std::string source;
};

ExpectedBar expected_by_memory(const topology::Gpu& gpu, const GpuMemory& memory) {
  const auto known = memory.find(gpu.bdf);
  if (known != memory.end()) {
    const auto bytes = static_cast<double>(known->second);
    return {bytes, fmt::format("of the {:.4g} GiB of its memory", bytes / kGiB)};
  }
  const double gigabytes = gigabytes_in(gpu.model);
  return {gigabytes * 1e9, fmt::format("of the {:.0f} GB of its memory", gigabytes)};
}

double bar_of(const PciStates& states, const topology::Gpu& gpu) {
  const auto state = states.find(gpu.bdf);
  return state == states.end() ? 0 : static_cast<double>(state->second.largest_bar);
}

}  // namespace

double gigabytes_in(const std::string& model) {
  for (size_t at = model.find("GB"); at != std::string::npos; at = model.find("GB", at + 1)) {
    size_t from = at;
    while (from > 0 && std::isdigit(static_cast<unsigned char>(model[from - 1])) != 0) --from;
    if (from < at && at - from < 6) return std::stod(model.substr(from, at - from));
  }
  return 0;
}

std::vector<SmallBar> small_bars(const topology::Machine& machine, const PciStates& states,
                                 const GpuMemory& memory) {
  std::vector<SmallBar> small;
  for (size_t i = 0; i < machine.gpus.size(); ++i) {
    const topology::Gpu& gpu = machine.gpus[i];
    const double bar = bar_of(states, gpu);
    if (bar == 0 || gpu.c2c_links > 0) continue;
    ExpectedBar expected = expected_by_memory(gpu, memory);
    for (const topology::Gpu& other : machine.gpus) {
      const double theirs = bar_of(states, other);
      if (other.ids != gpu.ids || theirs <= std::max(bar, expected.bytes)) continue;
      expected = {theirs, fmt::format("where its peers show {:.4g} GiB", theirs / kGiB)};
    }
    if (bar >= expected.bytes) continue;
    small.push_back({i, fmt::format("shows {:.4g} GiB {}", bar / kGiB, expected.source)});
  }
  return small;
}

}  // namespace gdr::tools::topo
