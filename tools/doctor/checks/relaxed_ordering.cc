// PCI relaxed ordering: whether HCAs may use it, and whether NCCL asks for it.
//
// A device may set the attribute in its requests only where Enable Relaxed Ordering is set in its
// Device Control register (PCI Express Base Specification, section 7.5.3.4, bit 4). Linux clears
// it below root ports with an erratum, as of Intel's Broadwell (quirk_relaxedordering_disable() in
// drivers/pci/quirks.c), and there it must stay so. Virtual functions do not have the bit.
#include <fmt/format.h>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/pci_functions.h"
#include "tools/topo/checks.h"

namespace gdr::tools::doctor {
namespace {

constexpr char kRelaxedVariable[] = "NCCL_IB_PCI_RELAXED_ORDERING";
constexpr uint16_t kEnableRelaxedOrdering = 1 << 4;

// The CPUs on which strictly ordered writes are known to be slow. In a virtual machine, the CPU's
// vendor is that of the host.
bool is_ordering_slow(const topology::Cpu& cpu) {
  return cpu.arch == "arm64" || cpu.vendor == "AuthenticAMD" || cpu.vendor == "HygonGenuine";
}

// Whether NCCL does not ask for it. 2, the default, is for wherever the verbs library can.
bool is_relaxed_off(const Host& host) {
  const auto set = host.environment.find(kRelaxedVariable);
  return set != host.environment.end() && set->second == "0";
}

std::string source_of_variable(const Host& host) {
  const auto place = host.conf_places.find(kRelaxedVariable);
  if (place == host.conf_places.end()) return "in the environment";
  return fmt::format("in line {} of {}", place->second.line, topo::clean_text(place->second.file));
}

Observation relaxed_setting(const Host& host) {
  if (!is_relaxed_off(host)) {
    return ok("", fmt::format("{} is not 0, so that NCCL asks for it", kRelaxedVariable));
  }
  const std::string evidence = fmt::format("{}=0 {}", kRelaxedVariable, source_of_variable(host));
  const topology::Cpu& cpu = host.inspection->decision.machine.cpu;
  if (!is_ordering_slow(cpu)) {
    return ok("", evidence + "; it is not known to matter on this CPU");
  }
  return warning("", evidence, fmt::format("unset {}, or set it to 1", kRelaxedVariable));
}

FixStep relaxed_step(const std::string& address, uint16_t control) {
  return {.comment =
              "Sets Enable Relaxed Ordering of this device, until the next boot or reset of "
              "the device, and changes no other bit.",
          .command = fmt::format("setpci -s {} CAP_EXP+8.w=0010:0010", address),
          .undo = fmt::format("setpci -s {} CAP_EXP+8.w={:04x}:0010", address, control)};
}

Observation disabled_hca(const Host& host, size_t hca, uint16_t control) {
  const topology::Machine& machine = host.inspection->decision.machine;
  const std::string name = topo::hca_name(machine, hca);
  const std::string evidence = fmt::format(
      "Enable Relaxed Ordering is off: Device Control is {:#06x} (CAP_EXP+8 in its configuration "
      "space)",
      control);
  if (is_virtual_machine(host)) {
    return unknown(name, evidence + ", which says nothing where it is a virtual function",
                   kNeedsHypervisor);
  }
  if (!is_ordering_slow(machine.cpu)) {
    return ok(name, evidence + "; it is not known to matter on this CPU");
  }
  const std::string address = machine.hcas[hca].bdf->to_string();
  return warning(
      name, evidence,
      fmt::format("setpci -s {} CAP_EXP+8.w=0010:0010, or enable it in the firmware", address),
      {relaxed_step(address, control)});
}

Observations relaxed_hcas(const Host& host, const std::vector<size_t>& hcas) {
  const topology::Machine& machine = host.inspection->decision.machine;
  std::vector<std::string> enabled, hidden, virtual_functions;
  Observations seen;
  for (const size_t hca : hcas) {
    const topology::Hca& one = machine.hcas[hca];
    const std::optional<uint16_t> control = device_control_of(host, *one.bdf);
    if (one.physical_function.has_value()) {
      virtual_functions.push_back(one.name);
    } else if (!control.has_value()) {
      hidden.push_back(one.name);
    } else if ((*control & kEnableRelaxedOrdering) == 0) {
      seen.push_back(disabled_hca(host, hca, *control));
    } else {
      enabled.push_back(one.name);
    }
  }
  if (!enabled.empty()) {
    seen.push_back(ok(topo::short_list(enabled),
                      "Enable Relaxed Ordering is on (CAP_EXP+8 in its configuration space)"));
  }
  if (!virtual_functions.empty()) {
    seen.push_back(ok(topo::short_list(virtual_functions),
                      "a virtual function, for which the bit of its physical function counts"));
  }
  if (!hidden.empty()) {
    seen.push_back(unknown(topo::short_list(hidden),
                           "the kernel does not show its PCI Express capability",
                           needs_for_config(host)));
  }
  return seen;
}

Observations run_relaxed_ordering(const Host& host) {
  if (!host.inspection.has_value()) return {unknown("", host.inspection_error, "")};
  const std::vector<size_t> hcas = rail_hcas(host);
  if (hcas.empty()) return {nothing_on(host, "there is no HCA with a rail on PCIe")};
  Observations seen = relaxed_hcas(host, hcas);
  seen.push_back(relaxed_setting(host));
  return seen;
}

}  // namespace

Check relaxed_ordering() {
  return {.name = "relaxed-ordering",
          .looks_at = "Enable Relaxed Ordering of the HCAs, and NCCL_IB_PCI_RELAXED_ORDERING",
          .why =
              "On CPUs of AMD and Arm, strictly ordered writes of HCAs reach a part of the "
              "bandwidth.",
          .cost = Cost::kSlows,
          .run = run_relaxed_ordering};
}

}  // namespace gdr::tools::doctor
