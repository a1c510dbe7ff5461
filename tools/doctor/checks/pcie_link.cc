// PCIe links of GPUs, HCAs and the switches above them. check_links() of `nccl-gdr topo --check`
// compares them; this adds what each link runs at, and what a slow one costs.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/pci_functions.h"
#include "tools/topo/checks.h"

namespace gdr::tools::doctor {
namespace {

// A device by the name that check_links() gives it.
struct PcieLink {
  topology::Bdf bdf;
  topology::PciLink possible;
  topology::PciLink current;
  int port_mbps = 0;  // of an HCA: the sum of its active ports
  bool is_hca = false;
};

using PcieLinks = std::map<std::string, PcieLink>;

topology::PciLink current_pcie_link(const Host& host, const topology::Bdf& bdf) {
  const auto state = host.pci_states.find(bdf);
  return state == host.pci_states.end() ? topology::PciLink{} : state->second.current;
}

int mbps_of_ports(const topology::Hca& hca) {
  int mbps = 0;
  for (const topology::Port& port : hca.ports) {
    if (port.state == topology::Port::State::kActive) mbps += port.speed_mbps;
  }
  return mbps;
}

PcieLinks pcie_links(const Host& host) {
  const topology::Machine& machine = host.inspection->decision.machine;
  PcieLinks links;
  auto add = [&](const std::string& name, const topology::Bdf& bdf, const topology::PciLink& link,
                 int mbps, bool is_hca) {
    links[name] = {bdf, link, current_pcie_link(host, bdf), mbps, is_hca};
  };
  for (size_t i = 0; i < machine.gpus.size(); ++i) {
    add(topo::gpu_name(machine, i), machine.gpus[i].bdf, machine.gpus[i].link, 0, false);
  }
  for (size_t i = 0; i < machine.hcas.size(); ++i) {
    const topology::Hca& hca = machine.hcas[i];
    if (hca.physical_function.has_value() || !hca.bdf.has_value()) continue;
    add(topo::hca_name(machine, i), *hca.bdf, hca.link, mbps_of_ports(hca), true);
  }
  for (const topology::Switch& one : machine.switches) {
    add("PCIe switch " + one.bdf.to_string(), one.bdf, one.link, 0, false);
  }
  return links;
}

// Megabits per second after the link's own coding: 8b/10b up to 5 GT/s, 128b/130b above. Headers of
// packets take a further part.
double mbps_of_link(const topology::PciLink& link) {
  return link.gt_per_s * 1000 * link.width * (link.gt_per_s > 5 ? 128.0 / 130 : 0.8);
}

// Whether the link certainly costs: it runs below what both ends support, and the HCA's ports need
// more than it carries. Without an active port an HCA carries nothing now.
bool costs_bandwidth(const PcieLink& link, FindingKind kind) {
  const bool runs_below =
      kind == FindingKind::kPcieWidth
          ? link.current.width > 0 && link.current.width < link.possible.width
          : link.current.gt_per_s > 0 && link.current.gt_per_s < link.possible.gt_per_s;
  return runs_below && (!link.is_hca || mbps_of_link(link.current) < link.port_mbps);
}

// The registers that a hypervisor shows need not be those of the hardware.
Observation link_observation(Finding finding, const PcieLinks& links, bool is_virtual) {
  const auto found = links.find(finding.subject);
  if (found == links.end()) return observation_of(finding);
  const PcieLink& link = found->second;
  finding.text += fmt::format(" (current_link_* and max_link_* in /sys/bus/pci/devices/{})",
                              link.bdf.to_string());
  if (link.port_mbps > 0 && link.current.width > 0) {
    finding.text += fmt::format("; it carries {:.0f} Gb/s, the HCA's ports {} Gb/s",
                                mbps_of_link(link.current) / 1000, link.port_mbps / 1000);
  }
  finding.fix +=
      fmt::format("; sudo lspci -vv -s {} shows LnkCap and LnkSta", link.bdf.to_string());
  if (!is_virtual && costs_bandwidth(link, finding.kind)) finding.severity = Severity::kError;
  return observation_of(finding);
}

// What is fine, and which links are slow now only because their devices are idle.
std::string links_as_they_run(const PcieLinks& links) {
  size_t compared = 0;
  std::vector<std::string> idle;
  for (const auto& [name, link] : links) {
    if (link.current.width == 0 || link.possible.width == 0) continue;
    ++compared;
    if (link.current.gt_per_s < link.possible.gt_per_s) {
      idle.push_back(
          fmt::format("{} at {} of {} GT/s", name, link.current.gt_per_s, link.possible.gt_per_s));
    }
  }
  std::string text = fmt::format("{} of {} PCIe links are compared with what they support",
                                 compared, links.size());
  if (!idle.empty()) {
    text += "; GPUs and switches above them lower their speed when idle: " + topo::short_list(idle);
  }
  return text;
}

bool any_link_runs(const PcieLinks& links) {
  return std::any_of(links.begin(), links.end(), [](const auto& one) {
    return one.second.current.width > 0 && one.second.possible.width > 0;
  });
}

Observations run_pcie_link(const Host& host) {
  if (!host.inspection.has_value()) return {unknown("", host.inspection_error, "")};
  const PcieLinks links = pcie_links(host);
  if (links.empty()) return {nothing_on(host, "there is no GPU and no HCA on PCIe")};
  topo::CheckReport report;
  topo::check_links({*host.inspection, host.pci_states}, &report);
  Observations seen;
  const bool is_virtual = is_virtual_machine(host);
  for (const Finding& fault : report.faults) {
    seen.push_back(link_observation(fault, links, is_virtual));
  }
  if (!seen.empty()) return seen;
  if (!any_link_runs(links)) {
    return {unknown("", "the kernel does not state what the PCIe links run at or support",
                    "sudo lspci -vv, LnkCap and LnkSta, on the machine itself")};
  }
  return {ok("", links_as_they_run(links))};
}

}  // namespace

Check pcie_link() {
  return {.name = "pcie-link",
          .looks_at =
              "width and speed of the PCIe links of GPUs, HCAs and switches against what "
              "they support and against their peers",
          .why =
              "A link that trained with fewer lanes or a lower speed bounds every transfer over "
              "it.",
          .cost = Cost::kSlows,
          .run = run_pcie_link};
}

}  // namespace gdr::tools::doctor
