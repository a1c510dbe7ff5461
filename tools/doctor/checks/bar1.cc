// The size of each GPU's BAR1, by which HCAs access its memory, against the memory and the BARs of
// its peers. A GPU with NVLink-C2C is mapped over C2C.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/facts/nvidia_files.h"
#include "tools/doctor/topology.h"

namespace gdr::tools::doctor {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

// Returns the gigabytes that a model's name states ("NVIDIA A100-SXM4-80GB"); 0: none.
double gigabytes_in(const std::string& model) {
  for (size_t at = model.find("GB"); at != std::string::npos; at = model.find("GB", at + 1)) {
    size_t from = at;
    while (from > 0 && std::isdigit(static_cast<unsigned char>(model[from - 1])) != 0) --from;
    if (from < at && at - from < 6) return std::stod(model.substr(from, at - from));
  }
  return 0;
}

struct GpuMemory {
  double bytes = 0;  // 0: unknown
  std::string size;
  const char* source = "";
};

GpuMemory memory_of(const Host& host, const Gpu& gpu) {
  const auto facts = host.gpus.gpus.find(gpu.bdf);
  if (facts != host.gpus.gpus.end() && facts->second.memory_bytes.has_value()) {
    const auto bytes = static_cast<double>(*facts->second.memory_bytes);
    return {bytes, fmt::format("{:.4g} GiB", bytes / kGiB)};
  }
  const double gigabytes = gigabytes_in(gpu.model);
  return {gigabytes * 1e9, fmt::format("{:.0f} GB", gigabytes), " by the model's name"};
}

Observation bar1_of(const Host& host, size_t index) {
  const Machine& machine = machine_of(host);
  const Gpu& gpu = machine.gpus[index];
  const std::string name = gpu_name(machine, index);
  const auto bar = static_cast<double>(bar1_bytes_of(host, gpu));
  if (gpu.c2c_links > 0) {
    return ok(name, "it is mapped over NVLink-C2C, so that the size of its BAR1 means nothing");
  }
  if (bar == 0) return unknown(name, "the size of its BAR1 is unknown", "mount /sys");
  const GpuMemory memory = memory_of(host, gpu);
  double expected = memory.bytes;
  std::string source = fmt::format("of the {} of its memory", memory.size);
  for (const Gpu& other : machine.gpus) {
    const auto theirs = static_cast<double>(bar1_bytes_of(host, other));
    if (other.ids != gpu.ids || theirs <= std::max(bar, expected)) continue;
    expected = theirs;
    source = fmt::format("where its peers show {:.4g} GiB", theirs / kGiB);
  }
  if (bar < expected) {
    return warning(name, fmt::format("BAR1 shows {:.4g} GiB {}", bar / kGiB, source),
                   "enable above-4G decoding and resizable BARs in the firmware");
  }
  const std::string evidence = fmt::format("BAR1 is {:.4g} GiB, and ", bar / kGiB);
  if (memory.bytes == 0) {
    return unknown(name, evidence + "the size of the memory unknown", needs_nvml(host));
  }
  return ok(name, evidence + "the memory " + memory.size + memory.source);
}

}  // namespace

Observations run_bar1(const Host& host) {
  const size_t gpus = machine_of(host).gpus.size();
  if (gpus == 0) return {nothing_on(host, "there is no GPU, whose BAR1 could be looked at")};
  Observations seen;
  for (size_t i = 0; i < gpus; ++i) seen.push_back(bar1_of(host, i));
  return seen;
}

}  // namespace gdr::tools::doctor
