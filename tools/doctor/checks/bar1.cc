// The size of each GPU's BAR1, by which HCAs access its memory. A GPU with NVLink-C2C is mapped
// over C2C.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/topology.h"

namespace gdr::tools::doctor {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
// What firmware gives a data centre GPU at most where it does not map the whole memory.
constexpr double kSmall = kGiB;
// What no such GPU has where the whole memory is not mapped.
constexpr double kLarge = 32 * kGiB;

// Returns the bytes that a model's name states ("NVIDIA A100-SXM4-80GB"); 0: none.
double memory_by_name(const std::string& model) {
  for (size_t at = model.find("GB"); at != std::string::npos; at = model.find("GB", at + 1)) {
    size_t from = at;
    while (from > 0 && std::isdigit(static_cast<unsigned char>(model[from - 1])) != 0) --from;
    if (from < at && at - from < 6) return 1e9 * std::stod(model.substr(from, at - from));
  }
  return 0;
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
  const double memory = memory_by_name(gpu.model);
  std::string text = fmt::format("BAR1 is {:.4g} GiB", bar / kGiB);
  double largest = bar;
  for (const Gpu& other : machine.gpus) {
    if (other.ids != gpu.ids) continue;
    largest = std::max(largest, static_cast<double>(bar1_bytes_of(host, other)));
  }
  if (largest > bar) {
    text += fmt::format(", where its peers have {:.4g} GiB", largest / kGiB);
  } else if (memory > bar) {
    text += fmt::format(", the memory {:.0f} GB by the model's name", memory / 1e9);
  } else if (memory > 0 || bar >= kLarge) {
    return ok(name, text);
  } else if (bar > kSmall) {
    return unknown(name, text + ", and the model's name does not state the memory",
                   "compare it with the memory in `nvidia-smi -q -d MEMORY`");
  }
  return warning(name, text, "enable above-4G decoding and resizable BARs in the firmware");
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
