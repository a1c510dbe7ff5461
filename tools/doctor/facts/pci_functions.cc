#include "tools/doctor/facts/pci_functions.h"

#include <set>
#include <sstream>
#include <system_error>

#include "tools/doctor/topology.h"
#include "topology/sources/pci_acs.h"
#include "topology/sources/pci_config.h"

namespace gdr::tools::doctor {
namespace {

namespace fs = std::filesystem;

constexpr uint16_t kAtsId = 0x000f;  // PCI Express Base Specification, ATS Extended Capability
constexpr size_t kAtsControl = 6;    // offset of the register in the capability
constexpr uint16_t kAtsEnable = 1 << 15;

// The folder of a function with all links resolved; empty where sysfs does not show it.
fs::path pci_folder(const Host& host, const topology::Bdf& bdf) {
  std::error_code absent;
  return fs::canonical(pci_path(host, bdf), absent);
}

GpuRailPair pair_of(const Host& host, size_t gpu, size_t hca) {
  const topology::PredictedRails& decision = host.inspection->decision;
  const topology::Machine& machine = decision.machine;
  const auto [send, receive] = topology::verdicts_between(decision, gpu, hca);
  const fs::path from = pci_folder(host, *machine.hcas[hca].bdf);
  const fs::path to = pci_folder(host, machine.gpus[gpu].bdf);
  return {gpu,
          hca,
          topo::gpu_label(gpu) + " and " + machine.hcas[hca].name,
          send.direct || receive.direct,
          !from.empty() && !to.empty(),
          topology::turning_ports(from, to)};
}

}  // namespace

std::string needs_for_config(const Host& host) {
  std::istringstream ids(host.is_live ? host.line_of("/proc/self/status", "Uid:").value_or("")
                                      : "");
  long real = 0, effective = -1;
  if (ids >> real >> effective && effective == 0) {
    return "run it on the machine itself, or give the container CAP_SYS_ADMIN and the host's "
           "user namespace";
  }
  return kNeedsRoot;
}

std::vector<GpuRailPair> gpu_rail_pairs(const Host& host) {
  const topology::RailDecision& decision = host.inspection->decision;
  std::vector<GpuRailPair> pairs;
  for (size_t gpu = 0; gpu < decision.machine.gpus.size(); ++gpu) {
    std::set<size_t> hcas;  // a GPU may use several ports of one
    for (const topology::Rail* rail : decision.plan.rails_of(gpu)) {
      const auto hca = static_cast<size_t>(rail->port.hca);
      if (decision.machine.hcas[hca].bdf.has_value()) hcas.insert(hca);
    }
    for (const size_t hca : hcas) pairs.push_back(pair_of(host, gpu, hca));
  }
  return pairs;
}

std::vector<size_t> rail_hcas(const Host& host) {
  const topology::RailDecision& decision = host.inspection->decision;
  std::vector<size_t> hcas;
  for (const auto& [hca, unused] : rails_by_hca(decision.plan)) {
    const auto index = static_cast<size_t>(hca);
    if (decision.machine.hcas[index].bdf.has_value()) hcas.push_back(index);
  }
  return hcas;
}

fs::path pci_path(const Host& host, const topology::Bdf& bdf) {
  return host.path("/sys/bus/pci/devices/" + bdf.to_string());
}

std::optional<bool> is_ats_enabled(const Host& host, const topology::Bdf& bdf) {
  const std::vector<uint8_t> config = topology::read_config(pci_path(host, bdf));
  const topology::PciCapability found = topology::find_extended_capability(config, kAtsId);
  if (!found.known) return std::nullopt;
  if (found.at == 0) return false;
  const std::optional<uint16_t> control = topology::word_at(config, found.at + kAtsControl);
  if (!control.has_value()) return std::nullopt;
  return (*control & kAtsEnable) != 0;
}

bool is_virtual_machine(const Host& host) {
  // All processors have the same flags.
  const std::string flags = host.line_of("/proc/cpuinfo", "flags").value_or("") + " ";
  if (flags.find(" hypervisor ") != std::string::npos) return true;
  const std::string product = host.line("/sys/class/dmi/id/product_name");
  return product.find("Virtual Machine") != std::string::npos ||
         host.line("/sys/class/dmi/id/sys_vendor") == "QEMU";
}

}  // namespace gdr::tools::doctor
