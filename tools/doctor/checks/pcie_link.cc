// PCIe links of GPUs, HCAs and the switches above them.
#include <fmt/format.h>

#include <algorithm>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/pci_functions.h"
#include "tools/doctor/silent_file.h"

namespace gdr::tools::doctor {
namespace {

Observations run_pcie_link(const Host& host) {
  if (!host.inspection.has_value()) return {unknown("", host.inspection_error, "")};
  const topology::Machine& machine = host.inspection->decision.machine;
  const bool has_hca = std::any_of(machine.hcas.begin(), machine.hcas.end(),
                                   [](const topology::Hca& hca) { return hca.bdf.has_value(); });
  if (machine.gpus.empty() && !has_hca) {
    return {nothing_on(host, "there is no GPU and no HCA on PCIe")};
  }
  Observations seen = findings_of(host, pcie_link().kinds);
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
          .kinds = {FindingKind::kPcieWidth, FindingKind::kPcieSpeed},
          .of_silent_file = silent_file::of_pcie_links,
          .run = run_pcie_link};
}

}  // namespace gdr::tools::doctor
