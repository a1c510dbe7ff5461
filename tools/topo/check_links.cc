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

std::vector<Linked> linked_devices(const RailDecision& decision) {
  const Machine& machine = decision.machine;
  std::vector<Linked> devices;
  for (size_t i = 0; i < machine.gpus.size(); ++i) {
    const Gpu& gpu = machine.gpus[i];
    devices.push_back({LinkedKind::kGpu, gpu_name(machine, i), gpu.bdf, gpu.ids, gpu.class_code,
                       gpu.model, 0, gpu.link});
  }
  const auto rails = rails_by_hca(decision.plan);
  for (size_t i = 0; i < machine.hcas.size(); ++i) {
    const Hca& hca = machine.hcas[i];
    if (hca.physical_function.has_value() || !hca.bdf.has_value()) continue;
    const int role = rails.count(static_cast<int>(i)) > 0 ? 1 : 0;
    devices.push_back({LinkedKind::kHca, hca_name(machine, i), hca.bdf, hca.ids, hca.class_code, "",
                       role, hca.link});
  }
  for (size_t i = 0; i < machine.switches.size(); ++i) {
    const Switch& one = machine.switches[i];
    const int role =
        (one.at.parent < 0 ? 0 : 1) + (carries_gpu(machine, static_cast<int>(i)) ? 2 : 0);
    devices.push_back({LinkedKind::kSwitch, "PCIe switch " + one.bdf.to_string(), one.bdf, one.ids,
                       one.class_code, "", role, one.link});
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

// Compares what the link supports with the best among the device's peers.
void compare_with_peers(const Linked& device, const std::vector<Linked>& devices,
                        CheckReport* report) {
  PciLink best;
  for (const Linked& other : devices) {
    if (!are_peers(device, other)) continue;
    best.gt_per_s = std::max(best.gt_per_s, other.link.gt_per_s);
    best.width = std::max(best.width, other.link.width);
  }
  auto names = [&](auto&& has_best) {
    std::vector<std::string> list;
    for (const Linked& other : devices) {
      if (are_peers(device, other) && has_best(other.link)) list.push_back(other.name);
    }
    return short_list(list);
  };
  if (device.link.width > 0 && device.link.width < best.width) {
    add_fault(report, FindingKind::kPcieWidth, device.name,
              "the PCIe link has " + width_words(device.link.width) + ", that of its peers " +
                  names([&](const PciLink& link) { return link.width == best.width; }) + " " +
                  width_words(best.width),
              kReseat);
  }
  if (device.link.gt_per_s > 0 && device.link.gt_per_s < best.gt_per_s) {
    add_fault(report, FindingKind::kPcieSpeed, device.name,
              "the PCIe link has " + speed_words(device.link.gt_per_s) + ", that of its peers " +
                  names([&](const PciLink& link) { return link.gt_per_s == best.gt_per_s; }) + " " +
                  speed_words(best.gt_per_s),
              kReseat);
  }
}

// Compares what the link runs at with what it supports. GPUs, and switches above them, lower the
// speed when idle, so that only their width counts.
void compare_with_current(const Linked& device, const PciLink& current, bool may_idle,
                          CheckReport* report) {
  if (current.width > 0 && current.width < device.link.width) {
    add_fault(report, FindingKind::kPcieWidth, device.name,
              "the PCIe link runs at " + width_words(current.width) + ", and " +
                  width_words(device.link.width) + " is possible",
              kReseat);
  }
  if (!may_idle && current.gt_per_s > 0 && current.gt_per_s < device.link.gt_per_s) {
    add_fault(report, FindingKind::kPcieSpeed, device.name,
              "the PCIe link runs at " + speed_words(current.gt_per_s) + ", and " +
                  speed_words(device.link.gt_per_s) + " is possible",
              kReseat);
  }
}

// Names the kinds of devices of which no link is compared, as their models are unknown.
std::string kinds_without_model(const std::vector<Linked>& devices) {
  constexpr std::pair<LinkedKind, const char*> kKinds[] = {{LinkedKind::kGpu, "GPUs"},
                                                           {LinkedKind::kHca, "HCAs"},
                                                           {LinkedKind::kSwitch, "PCIe switches"}};
  std::vector<std::string> names;
  for (const auto& [kind, name] : kKinds) {
    bool any = false, comparable = false;
    for (const Linked& device : devices) {
      if (device.kind != kind || device.link.width == 0) continue;
      any = true;
      comparable = comparable || are_peers(device, device);
    }
    if (any && !comparable) names.emplace_back(name);
  }
  return short_list(names);
}

}  // namespace

void check_links(const CheckInput& input, CheckReport* report) {
  const std::vector<Linked> devices = linked_devices(input.decision());
  size_t unknown = 0;
  bool runs = false;
  for (const Linked& device : devices) {
    compare_with_peers(device, devices, report);
    const PciLink& current = input.state_of(device.bdf).current;
    const bool may_idle = device.kind == LinkedKind::kGpu || device.role >= 2;
    compare_with_current(device, current, may_idle, report);
    runs = runs || current.width > 0;
    if (device.link.width == 0) ++unknown;
  }
  if (unknown > 0) {
    report->notes.push_back(
        fmt::format("the PCIe links of {} of {} devices are unknown", unknown, devices.size()));
  }
  const std::string without = kinds_without_model(devices);
  if (!without.empty()) {
    report->notes.push_back("PCIe links of " + without +
                            " are not compared: the source has no model of them");
  }
  const bool compared = std::any_of(devices.begin(), devices.end(), [](const Linked& device) {
    return device.link.width > 0 && are_peers(device, device);
  });
  if (!runs && compared) {
    report->notes.push_back(
        "what the PCIe links run at is unknown: only what they support is compared");
  }
}

}  // namespace gdr::tools::topo
