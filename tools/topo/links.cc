#include "tools/topo/links.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace gdr::tools::topo {
namespace {

using To = NvLink::To;

// The switches above a device, the nearest first.
std::vector<int> switches_above(const Machine& machine, const Attachment& at) {
  std::vector<int> chain;
  for (int one = at.parent; one >= 0; one = machine.switches[one].at.parent) chain.push_back(one);
  return chain;
}

}  // namespace

std::string gpu_links_text(const Machine& machine, size_t index) {
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

PciLink narrowest_link(const Machine& machine, const Attachment& gpu, const PciLink& gpu_link,
                       const Attachment& hca, const PciLink& hca_link) {
  std::vector<int> above_gpu = switches_above(machine, gpu);
  std::vector<int> above_hca = switches_above(machine, hca);
  // The path turns around at the nearest common switch, whose own link is not part of it.
  while (!above_gpu.empty() && !above_hca.empty() && above_gpu.back() == above_hca.back()) {
    above_gpu.pop_back();
    above_hca.pop_back();
  }
  std::vector<PciLink> links = {gpu_link, hca_link};
  for (int one : above_gpu) links.push_back(machine.switches[one].link);
  for (int one : above_hca) links.push_back(machine.switches[one].link);
  PciLink narrowest;
  for (const PciLink& link : links) {
    if (link.gt_per_s <= 0 || link.width <= 0) continue;
    if (narrowest.width == 0 || link.gt_per_s * link.width < narrowest.gt_per_s * narrowest.width) {
      narrowest = link;
    }
  }
  return narrowest;
}

std::string pair_text(const RailDecision& decision, const RailPair& pair) {
  const Gpu& gpu = decision.machine.gpus[pair.gpu];
  const Hca& hca = hca_of(decision.machine, decision.plan.rails[pair.rail].port);
  // A GPU reaches its CPU over C2C instead of its own PCIe link.
  const bool over_c2c = pair.path == "P2C";
  const PciLink link =
      narrowest_link(decision.machine, gpu.at, over_c2c ? PciLink{} : gpu.link, hca.at, hca.link);
  const std::string speed = pci_link_text(link);
  return speed.empty() ? pair.path : pair.path + ", " + speed;
}

}  // namespace gdr::tools::topo
