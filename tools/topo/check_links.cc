// PCIe links: what they run at against what they support, and against those of like devices.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

#include "tools/topo/checks.h"

namespace gdr::tools::topo {
namespace {

enum class LinkedKind { kGpu, kHca, kSwitch };

// A device with a link to check.
struct Linked {
  LinkedKind kind;
  std::string name;
  std::optional<Bdf> bdf;
  topology::PciIds ids;
  uint32_t class_code;
  std::string model;
  int role;  // links of like devices in different roles may differ, as those of a storage network
  PciLink link;
  int port_mbps;  // of an HCA: what its active ports need
};

// Whether a GPU is below the switch.
bool carries_gpu(const Machine& machine, int one) {
  auto is_below = [&](int at) {
    while (at >= 0 && at != one) at = machine.switches[static_cast<size_t>(at)].at.parent;
    return at == one;
  };
  return std::any_of(machine.gpus.begin(), machine.gpus.end(),
                     [&](const Gpu& gpu) { return is_below(gpu.at.parent); });
}

int mbps_of_ports(const Hca& hca) {
  int mbps = 0;
  for (const Port& port : hca.ports) {
    if (port.state == Port::State::kActive) mbps += port.speed_mbps;
  }
  return mbps;
}

std::vector<Linked> linked_devices(const RailDecision& decision) {
  const Machine& machine = decision.machine;
  std::vector<Linked> devices;
  for (size_t i = 0; i < machine.gpus.size(); ++i) {
    const Gpu& gpu = machine.gpus[i];
    devices.push_back({LinkedKind::kGpu, gpu_name(machine, i), gpu.bdf, gpu.ids, gpu.class_code,
                       gpu.model, 0, gpu.link, 0});
  }
  const auto rails = rails_by_hca(decision.plan);
  for (size_t i = 0; i < machine.hcas.size(); ++i) {
    const Hca& hca = machine.hcas[i];
    if (hca.physical_function.has_value() || !hca.bdf.has_value()) continue;
    const int role = rails.count(static_cast<int>(i)) > 0 ? 1 : 0;
    devices.push_back({LinkedKind::kHca, hca_name(machine, i), hca.bdf, hca.ids, hca.class_code, "",
                       role, hca.link, mbps_of_ports(hca)});
  }
  for (size_t i = 0; i < machine.switches.size(); ++i) {
    const Switch& one = machine.switches[i];
    const int role =
        (one.at.parent < 0 ? 0 : 1) + (carries_gpu(machine, static_cast<int>(i)) ? 2 : 0);
    devices.push_back({LinkedKind::kSwitch, "PCIe switch " + one.bdf.to_string(), one.bdf, one.ids,
                       one.class_code, "", role, one.link, 0});
  }
  return devices;
}

// GPUs of one class are peers also in a file without PCI IDs: a server has one model of them.
bool are_peers(const Linked& a, const Linked& b) {
  if (a.kind == LinkedKind::kGpu && b.kind == LinkedKind::kGpu && a.ids.vendor == 0) {
    return std::tie(b.ids.vendor, a.class_code, a.model) ==
           std::tie(a.ids.vendor, b.class_code, b.model);
  }
  return a.ids.vendor != 0 && std::tie(a.kind, a.ids.vendor, a.ids.device, a.role) ==
                                  std::tie(b.kind, b.ids.vendor, b.ids.device, b.role);
}

std::string speed_words(double gt_per_s) { return fmt::format("{} GT/s", gt_per_s); }
std::string width_words(int width) { return "x" + std::to_string(width); }

constexpr char kReseat[] =
    "reseat the card and its riser or cable, and look for the slot's settings in the firmware";

// Megabits per second after the link's own coding: 8b/10b up to 5 GT/s, 128b/130b above. Headers of
// packets take a further part.
double mbps_of_link(const PciLink& link) {
  return link.gt_per_s * 1000 * link.width * (link.gt_per_s > 5 ? 128.0 / 130 : 0.8);
}

// Adds what is wrong with a link that runs at `current`. It is an error where that certainly costs:
// the link runs below what both ends support, and an HCA's ports need more than it carries. Without
// an active port an HCA carries nothing now.
void add_link(FindingKind kind, const Linked& device, const PciLink& current, std::string text,
              Findings* found) {
  const bool runs_below = kind == FindingKind::kPcieWidth
                              ? current.width > 0 && current.width < device.link.width
                              : current.gt_per_s > 0 && current.gt_per_s < device.link.gt_per_s;
  const bool costs =
      runs_below && (device.kind != LinkedKind::kHca || mbps_of_link(current) < device.port_mbps);
  if (device.port_mbps > 0 && current.width > 0) {
    text += fmt::format("; it carries {:.0f} Gb/s, the HCA's ports {} Gb/s",
                        mbps_of_link(current) / 1000, device.port_mbps / 1000);
  }
  std::string fix = kReseat;
  if (device.bdf.has_value()) {
    fix += fmt::format("; sudo lspci -vv -s {} shows LnkCap and LnkSta", device.bdf->to_string());
  }
  found->push_back({kind, costs ? Severity::kError : Severity::kWarning, device.name,
                    std::move(text), std::move(fix)});
}

// The best that the links of the device's peers support.
PciLink best_of_peers(const Linked& device, const std::vector<Linked>& devices) {
  PciLink best;
  for (const Linked& other : devices) {
    if (!are_peers(device, other)) continue;
    best.gt_per_s = std::max(best.gt_per_s, other.link.gt_per_s);
    best.width = std::max(best.width, other.link.width);
  }
  return best;
}

// Compares what the link supports with the best among the device's peers.
void compare_with_peers(const Linked& device, const std::vector<Linked>& devices,
                        const PciLink& current, Findings* found) {
  const PciLink best = best_of_peers(device, devices);
  auto text = [&](const std::string& own, const std::string& others, auto&& has_best) {
    std::vector<std::string> names;
    for (const Linked& other : devices) {
      if (are_peers(device, other) && has_best(other.link)) names.push_back(other.name);
    }
    return fmt::format("the PCIe link has {}, that of its peers {} {}", own, short_list(names),
                       others);
  };
  if (device.link.width > 0 && device.link.width < best.width) {
    add_link(FindingKind::kPcieWidth, device, current,
             text(width_words(device.link.width), width_words(best.width),
                  [&](const PciLink& link) { return link.width == best.width; }),
             found);
  }
  if (device.link.gt_per_s > 0 && device.link.gt_per_s < best.gt_per_s) {
    add_link(FindingKind::kPcieSpeed, device, current,
             text(speed_words(device.link.gt_per_s), speed_words(best.gt_per_s),
                  [&](const PciLink& link) { return link.gt_per_s == best.gt_per_s; }),
             found);
  }
}

// Compares what the link runs at with what it supports. GPUs, and switches above them, lower the
// speed when idle, so that only their width counts.
void compare_with_current(const Linked& device, const PciLink& current, Findings* found) {
  const bool may_idle = device.kind == LinkedKind::kGpu || device.role >= 2;
  auto text = [](const std::string& runs_at, const std::string& possible) {
    return fmt::format("the PCIe link runs at {}, and {} is possible", runs_at, possible);
  };
  if (current.width > 0 && current.width < device.link.width) {
    add_link(FindingKind::kPcieWidth, device, current,
             text(width_words(current.width), width_words(device.link.width)), found);
  }
  if (!may_idle && current.gt_per_s > 0 && current.gt_per_s < device.link.gt_per_s) {
    add_link(FindingKind::kPcieSpeed, device, current,
             text(speed_words(current.gt_per_s), speed_words(device.link.gt_per_s)), found);
  }
}

}  // namespace

void check_links(const CheckInput& input, Findings* found) {
  const std::vector<Linked> devices = linked_devices(input.decision());
  for (const Linked& device : devices) {
    const PciLink& current = input.state_of(device.bdf).current;
    compare_with_peers(device, devices, current, found);
    compare_with_current(device, current, found);
  }
}

}  // namespace gdr::tools::topo
