// PCIe links of GPUs, HCAs and the switches above them.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/facts/pci_functions.h"
#include "tools/doctor/topology.h"

namespace gdr::tools::doctor {
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

std::vector<Linked> linked_devices(const Host& host) {
  const RailDecision& decision = decision_of(host);
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
    const topology::Switch& one = machine.switches[i];
    const int role =
        (one.at.parent < 0 ? 0 : 1) + (carries_gpu(machine, static_cast<int>(i)) ? 2 : 0);
    devices.push_back({LinkedKind::kSwitch, "PCIe switch " + one.bdf.to_string(), one.bdf, one.ids,
                       one.class_code, "", role, one.link, 0});
  }
  // The machine may be that of NCCL_TOPO_FILE, which says what NCCL takes, and not what there is.
  for (Linked& one : devices) {
    const PciLink best = state_of(host, one.bdf).best;
    if (best.gt_per_s > 0 && best.width > 0) one.link = best;
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

// Width or speed of a link.
struct Quantity {
  FindingKind kind;
  double (*of)(const PciLink& link);  // 0: unknown
  const char* format;
};

constexpr Quantity kQuantities[] = {
    {FindingKind::kPcieWidth, [](const PciLink& link) { return double(link.width); }, "x{}"},
    {FindingKind::kPcieSpeed,
     [](const PciLink& link) { return link.is_speed_assumed ? 0 : link.gt_per_s; }, "{} GT/s"}};

std::string words_of(const Quantity& quantity, double value) {
  return fmt::format(fmt::runtime(quantity.format), value);
}

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
void add_link(const Quantity& quantity, const Linked& device, const PciLink& current,
              std::string text, Findings* found) {
  const double now = quantity.of(current);
  const bool runs_below = now > 0 && now < quantity.of(device.link);
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
  found->push_back({quantity.kind, costs ? Severity::kError : Severity::kWarning, device.name,
                    std::move(text), std::move(fix)});
}

// Compares what the link supports with the best among the device's peers.
void compare_with_peers(const Quantity& quantity, const Linked& device,
                        const std::vector<Linked>& devices, const PciLink& current,
                        Findings* found) {
  const double own = quantity.of(device.link);
  double best = own;
  std::vector<std::string> names;
  for (const Linked& other : devices) {
    const double theirs = quantity.of(other.link);
    if (!are_peers(device, other) || theirs < best) continue;
    if (theirs > best) names.clear();
    best = theirs;
    names.push_back(other.name);
  }
  if (own == 0 || own == best) return;
  add_link(quantity, device, current,
           fmt::format("the PCIe link has {}, that of its peers {} {}", words_of(quantity, own),
                       short_list(names), words_of(quantity, best)),
           found);
}

// Compares what the link runs at with what it supports. GPUs, and switches above them, lower the
// speed when idle, so that only their width counts.
void compare_with_current(const Quantity& quantity, const Linked& device, const PciLink& current,
                          Findings* found) {
  const bool may_idle = device.kind == LinkedKind::kGpu || device.role >= 2;
  const double now = quantity.of(current), possible = quantity.of(device.link);
  if (now == 0 || now >= possible) return;
  if (may_idle && quantity.kind == FindingKind::kPcieSpeed) return;
  add_link(quantity, device, current,
           fmt::format("the PCIe link runs at {}, and {} is possible", words_of(quantity, now),
                       words_of(quantity, possible)),
           found);
}

}  // namespace

void judge_pcie_links(const Host& host, Findings* found) {
  const std::vector<Linked> devices = linked_devices(host);
  for (const Linked& device : devices) {
    const PciLink current = state_of(host, device.bdf).current;
    for (const Quantity& one : kQuantities) {
      compare_with_peers(one, device, devices, current, found);
    }
    for (const Quantity& one : kQuantities) compare_with_current(one, device, current, found);
  }
}

Observations run_pcie_link(const Host& host) {
  const Machine& machine = machine_of(host);
  const bool has_hca = std::any_of(machine.hcas.begin(), machine.hcas.end(),
                                   [](const topology::Hca& hca) { return hca.bdf.has_value(); });
  if (machine.gpus.empty() && !has_hca) {
    return {nothing_on(host, "there is no GPU and no HCA on PCIe")};
  }
  Observations seen = findings_of(host, check_named("pcie-link").kinds);
  // The registers that a hypervisor shows need not be those of the hardware.
  if (is_virtual_machine(host)) {
    for (Observation& one : seen) one.verdict = Verdict::kWarning;
  }
  if (!seen.empty()) return seen;
  const auto known = std::count_if(host.pci_states.begin(), host.pci_states.end(),
                                   [](const auto& one) { return one.second.current.width > 0; });
  if (known == 0) {
    return {unknown("", "the kernel does not state what the PCIe links run at or support",
                    "sudo lspci -vv, LnkCap and LnkSta, on the machine itself")};
  }
  return {ok("", fmt::format("{} PCIe links have the width and the speed that they and their peers "
                             "support, but for the speed of GPUs and of switches above them, "
                             "which is lower while they are idle",
                             known))};
}

}  // namespace gdr::tools::doctor
