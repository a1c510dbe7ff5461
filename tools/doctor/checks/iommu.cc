// What the IOMMU does to the addresses of HCAs.
//
// Where it translates an HCA's addresses, the HCA sends requests to I/O virtual addresses. No
// switch has a window for these (Linux keeps the windows of the host bridges out of them:
// iova_reserve_pci_windows() in drivers/iommu/dma-iommu.c), so that each request for GPU memory
// goes up to the root complex, is translated there, and comes down again.
#include <fmt/format.h>

#include <map>
#include <sstream>
#include <system_error>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/facts/pci_functions.h"
#include "tools/doctor/topology.h"
#include "topology/sources/sysfs_files.h"

namespace gdr::tools::doctor {
namespace {

namespace fs = std::filesystem;

constexpr char kIommuGroups[] = "/sys/kernel/iommu_groups";
constexpr char kIommuFix[] =
    "boot with iommu=pt: add it to GRUB_CMDLINE_LINUX in /etc/default/grub, run update-grub "
    "(Debian, Ubuntu) or grub2-mkconfig -o /boot/grub2/grub.cfg, and reboot";

// The words of the kernel's command line that set the mode.
std::string iommu_words(const Host& host) {
  std::istringstream words(host.line("/proc/cmdline"));
  std::string found;
  for (std::string word; words >> word;) {
    if (!word.starts_with("iommu") && !word.starts_with("intel_iommu=") &&
        !word.starts_with("amd_iommu=")) {
      continue;
    }
    found += (found.empty() ? "" : " ") + word;
  }
  return found.empty() ? "the kernel's command line sets no mode"
                       : "the kernel's command line has " + topo::clean_text(found);
}

bool has_iommu_groups(const Host& host) { return !host.names(kIommuGroups).empty(); }

// Devices by the type of their IOMMU group: "DMA" (strict), "DMA-FQ" (lazy), "identity", or what
// else the kernel states (Documentation/ABI/testing/sysfs-kernel-iommu_groups). "none" for a device
// without a group, "hidden" for one that sysfs does not show, "" where the kernel does not state
// the type.
using IommuTypes = std::map<std::string, std::vector<std::string>>;

std::string iommu_type_of(const Host& host, const topology::Bdf& bdf) {
  std::error_code absent;
  const fs::path group = pci_path(host, bdf) / "iommu_group";
  if (!fs::exists(pci_path(host, bdf), absent)) return "hidden";
  if (!fs::exists(group, absent)) return "none";
  return topology::first_line(group / "type");
}

bool is_translated(const Host& host, const topology::Bdf& bdf) {
  return iommu_type_of(host, bdf).starts_with("DMA");
}

IommuTypes types_of_hcas(const Host& host) {
  const Machine& machine = machine_of(host);
  IommuTypes types;
  for (const size_t hca : rail_hcas(host)) {
    types[iommu_type_of(host, *machine.hcas[hca].bdf)].push_back(hca_name(machine, hca));
  }
  return types;
}

// Whether translation takes traffic of some pair off a switch that the two share.
bool takes_a_detour(const Host& host) {
  for (const GpuRailPair& pair : gpu_rail_pairs(host)) {
    const topology::Bdf& hca = *machine_of(host).hcas[pair.hca].bdf;
    if (!pair.is_direct || pair.turning_ports.empty() || !is_translated(host, hca)) continue;
    if (!is_ats_enabled(host, hca).value_or(false)) return true;
  }
  return false;
}

Observation translated_hcas(const Host& host, const std::string& type,
                            const std::vector<std::string>& hcas) {
  const Machine& machine = machine_of(host);
  const std::string subject = topo::short_list(hcas);
  const std::string evidence = fmt::format(
      "the IOMMU translates the HCA's addresses: its IOMMU group has type {} (iommu_group/type in "
      "sysfs), {}",
      topo::clean_text(type), iommu_words(host));
  if (machine.gpus.empty()) return ok(subject, evidence + "; there is no GPU");
  // The SMMU of an Arm server is on in any case, and serves peer-to-peer traffic, too.
  if (machine.cpu.arch == "arm64") return ok(subject, evidence + "; usual on this architecture");
  if (is_virtual_machine(host)) {
    return warning(subject,
                   evidence +
                       "; this is a virtual IOMMU, which costs when memory is "
                       "registered, and the machine's own translates as well",
                   kIommuFix);
  }
  return takes_a_detour(host) ? failure(subject, evidence, kIommuFix)
                              : warning(subject, evidence, kIommuFix);
}

Observation hcas_of_type(const Host& host, const std::string& type,
                         const std::vector<std::string>& hcas) {
  const std::string subject = topo::short_list(hcas);
  if (type.starts_with("DMA")) return translated_hcas(host, type, hcas);
  if (type.empty()) {
    return unknown(subject, "the kernel does not state the type of the IOMMU group",
                   "dmesg | grep -i 'default domain type'");
  }
  if (type == "hidden") {
    return unknown(subject, "/sys/bus/pci/devices does not show it", "mount the machine's /sys");
  }
  if (type == "none") return ok(subject, "in no IOMMU group, so that no IOMMU translates");
  return ok(subject,
            fmt::format("type of the IOMMU group is {} ({}/*/type){}; {}", topo::clean_text(type),
                        kIommuGroups, type == "identity" ? ": addresses are not translated" : "",
                        iommu_words(host)));
}

}  // namespace

Observations run_iommu(const Host& host) {
  if (!host.exists("/sys/kernel")) {
    return {unknown("", "there is no /sys/kernel", needs_sys(host))};
  }
  if (!has_iommu_groups(host)) {
    return {
        ok("", fmt::format("no IOMMU is in use: {} is empty; {}{}", kIommuGroups, iommu_words(host),
                           is_virtual_machine(host)
                               ? "; the hypervisor's is not visible in this virtual machine"
                               : ""))};
  }
  if (!host.inspection.has_value()) return {unknown_topology(host)};
  Observations seen;
  for (const auto& [type, hcas] : types_of_hcas(host)) {
    seen.push_back(hcas_of_type(host, type, hcas));
  }
  if (seen.empty()) {
    seen.push_back(
        ok("", "an IOMMU is in use, and there is no HCA with a rail; " + iommu_words(host)));
  }
  return seen;
}

}  // namespace gdr::tools::doctor
