#include "tools/topo/links.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace gdr::tools::topo {
namespace {

using To = GpuLink::To;

int index_of(const Machine& machine, const Bdf& bdf) {
  for (size_t i = 0; i < machine.gpus.size(); ++i) {
    if (machine.gpus[i].bdf == bdf) return static_cast<int>(i);
  }
  return -1;
}

// Adds a link, or its count where both ends state the same link.
void merge(const GpuLink& link, std::vector<GpuLink>* links) {
  for (GpuLink& other : *links) {
    if (other.gpu != link.gpu || other.target != link.target) continue;
    other.count = std::max(other.count, link.count);
    return;
  }
  links->push_back(link);
}

// Returns the links as one GPU states them, each target once.
std::vector<GpuLink> links_from(const Machine& machine, int gpu) {
  const Gpu& one = machine.gpus[static_cast<size_t>(gpu)];
  std::vector<GpuLink> links;
  auto add = [&](To to, int target, int count) {
    for (GpuLink& other : links) {
      if (other.to != to || other.target != target) continue;
      other.count += count;
      return;
    }
    links.push_back({to, gpu, target, count});
  };
  for (const NvLink& link : one.nvlinks) {
    if (link.to == NvLink::To::kSwitch) add(To::kSwitch, -1, link.count);
    if (link.to == NvLink::To::kCpu) add(To::kCpu, one.at.numa, link.count);
    if (link.to != NvLink::To::kGpu || !link.gpu) continue;
    const int target = index_of(machine, *link.gpu);
    if (target >= 0 && target != gpu) add(To::kGpu, target, link.count);
  }
  if (one.c2c_links > 0) add(To::kC2c, one.at.numa, one.c2c_links);
  return links;
}

// The switches above a device, the nearest first.
std::vector<int> switches_above(const Machine& machine, const Attachment& at) {
  std::vector<int> chain;
  for (int one = at.parent; one >= 0; one = machine.switches[one].at.parent) chain.push_back(one);
  return chain;
}

}  // namespace

std::vector<GpuLink> links_between_gpus(const Machine& machine) {
  std::vector<GpuLink> links;
  for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    for (GpuLink link : links_from(machine, static_cast<int>(gpu))) {
      if (link.to != To::kGpu) continue;
      if (link.target < link.gpu) std::swap(link.gpu, link.target);
      merge(link, &links);
    }
  }
  std::sort(links.begin(), links.end(), [](const GpuLink& a, const GpuLink& b) {
    return std::tie(a.gpu, a.target) < std::tie(b.gpu, b.target);
  });
  return links;
}

std::string count_text(const GpuLink& link) {
  return link.count > 0 ? std::to_string(link.count) : "?";
}

const char* link_name(const Gpu& gpu) {
  constexpr uint16_t kAmd = 0x1002;
  return gpu.ids.vendor == kAmd ? "xGMI" : "NVLink";
}

std::string gpu_links_text(const Machine& machine, size_t gpu) {
  const std::string name = link_name(machine.gpus[gpu]);
  if (!gpu_links_known(machine, gpu)) return name + " unknown";
  int to_gpus = 0, peers = 0;
  std::string text;
  auto add = [&](const std::string& kind, int count, const std::string& target) {
    text +=
        (text.empty() ? "" : ", ") + kind + (count > 0 ? fmt::format(" x{}", count) : "") + target;
  };
  for (const GpuLink& link : links_from(machine, static_cast<int>(gpu))) {
    if (link.to == To::kSwitch) add(name, link.count, "");
    if (link.to == To::kCpu) add(name, link.count, " CPU");
    if (link.to == To::kC2c) add("C2C", link.count, "");
    if (link.to != To::kGpu) continue;
    to_gpus += link.count;
    ++peers;
  }
  if (peers > 0) add(name, to_gpus, fmt::format(" to {} GPU{}", peers, peers > 1 ? "s" : ""));
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
