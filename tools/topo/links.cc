#include "tools/topo/links.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace gdr::tools::topo {

std::string gpu_links_text(const Machine& machine, size_t index) {
  using To = NvLink::To;
  constexpr uint16_t kAmd = 0x1002;
  const Gpu& gpu = machine.gpus[index];
  const std::string name = gpu.ids.vendor == kAmd ? "xGMI" : "NVLink";
  if (!gpu_links_known(machine, index)) return name + " unknown";
  std::string text;
  const auto add = [&](const std::string& target, std::optional<int> count) {
    if (!count) return;
    text += (text.empty() ? "" : ", ") + target + (*count > 0 ? fmt::format(" x{}", *count) : "");
  };
  add(name, links_to(gpu, To::kSwitch));
  add(name + " to the CPU", links_to(gpu, To::kCpu));
  if (gpu.c2c_links > 0) add("C2C", gpu.c2c_links);
  std::string to = name + " to ";
  for (size_t i = 0; i < machine.gpus.size(); ++i) {
    const Gpu& other = machine.gpus[i];
    // A source may state a link at one end only.
    const auto count =
        std::max(links_to(gpu, To::kGpu, &other.bdf), links_to(other, To::kGpu, &gpu.bdf));
    if (i == index || !count) continue;
    add(to + gpu_label(i), count);
    to.clear();
  }
  return text;
}

}  // namespace gdr::tools::topo
