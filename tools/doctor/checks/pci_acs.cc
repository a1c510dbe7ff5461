// Access Control Services (PCI Express Base Specification, section 6.12) between GPUs and HCAs.
//
// The bits that turn traffic away from the direct path are those that Linux counts, too
// (pci_bridge_has_acs_redir() in drivers/pci/p2pdma.c): P2P Request Redirect, P2P Completion
// Redirect and P2P Egress Control. The others are left alone: Source Validation and Translation
// Blocking check requests, Upstream Forwarding passes on what a switch below has redirected, and
// Direct Translated P2P lets translated requests through in spite of Request Redirect.
#include "topology/sources/pci_acs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/facts/pci_functions.h"
#include "tools/doctor/topology.h"

namespace gdr::tools::doctor {
namespace {

namespace fs = std::filesystem;

constexpr char kAcsSubject[] = "PCIe port ";
constexpr uint16_t kAcsEgressControl = 1 << 5;
constexpr uint16_t kAcsDirectTranslated = 1 << 6;
constexpr uint16_t kAcsRedirects =
    topology::Acs::kRequestRedirect | topology::Acs::kCompletionRedirect;
constexpr uint16_t kAcsToClear = kAcsRedirects | kAcsEgressControl;

// The bits of the control register, with the names of lspci.
constexpr std::pair<uint16_t, const char*> kAcsBits[] = {
    {1 << 0, "SrcValid"},    {1 << 1, "TransBlk"},   {1 << 2, "ReqRedir"},   {1 << 3, "CmpltRedir"},
    {1 << 4, "UpstreamFwd"}, {1 << 5, "EgressCtrl"}, {1 << 6, "DirectTrans"}};

// A port of a switch at which traffic of some pairs turns around.
struct AcsPort {
  topology::Acs acs;
  std::vector<std::string> pairs;
  bool is_direct = false;  // whether NCCL uses GPUDirect RDMA for one of them
  bool are_ats = true;     // whether all HCAs of the pairs send translated requests
};

using AcsPorts = std::map<std::string, AcsPort>;  // by the address of the port

AcsPorts acs_ports(const Host& host, const std::vector<GpuRailPair>& pairs) {
  AcsPorts ports;
  for (const GpuRailPair& pair : pairs) {
    const topology::Hca& hca = machine_of(host).hcas[pair.hca];
    const bool is_ats = is_ats_enabled(host, *hca.bdf).value_or(false);
    for (const fs::path& folder : pair.turning_ports) {
      AcsPort& port = ports[folder.filename().string()];
      if (port.pairs.empty()) port.acs = topology::read_acs(folder);
      port.pairs.push_back(pair.name);
      port.is_direct = port.is_direct || pair.is_direct;
      port.are_ats = port.are_ats && is_ats;
    }
  }
  return ports;
}

std::string acs_bits(uint16_t control) {
  std::string names;
  for (const auto& [bit, name] : kAcsBits) {
    if ((control & bit) != 0) names += (names.empty() ? "" : " ") + std::string(name) + "+";
  }
  return fmt::format("{:#06x} ({})", control, names.empty() ? "no bit set" : names);
}

// Judges a port whose register has one of the bits.
Observation acs_observation(const std::string& address, const AcsPort& port, bool is_virtual) {
  const uint16_t control = *port.acs.control;
  const std::string evidence =
      fmt::format("ACS control is {} (ECAP_ACS+6), which {} between {}", acs_bits(control),
                  port.acs.redirects() ? "sends over the CPU what passes" : "may block what passes",
                  topo::short_list(port.pairs));
  const std::string subject = kAcsSubject + address;
  const bool goes_straight = port.are_ats && (control & kAcsDirectTranslated) != 0;
  if (goes_straight && (control & (kAcsToClear & ~topology::Acs::kRequestRedirect)) == 0) {
    return ok(subject, evidence + "; the HCAs use ATS, and DirectTrans+ lets their requests pass");
  }
  // Sets these bits alone.
  const std::string command =
      fmt::format("setpci -s {} ECAP_ACS+0x6.w=0000:{:04x}", address, kAcsToClear);
  if (is_virtual) {
    return warning(subject, evidence + "; it is a port that the hypervisor shows, real or not",
                   command, {command});
  }
  const bool certain = port.acs.redirects() && port.is_direct && !goes_straight;
  return certain ? failure(subject, evidence, command, {command})
                 : warning(subject, evidence, command, {command});
}

// What keeps the bits of the ports clear over a boot. The list is one of Linux 4.19 and later
// (Documentation/admin-guide/kernel-parameters.txt, pci=disable_acs_redir); GRUB's own files take
// an unquoted ';' for the end of a command.
Observation acs_for_good(Verdict verdict, const std::vector<std::string>& addresses) {
  std::string list;
  for (const std::string& one : addresses) list += (list.empty() ? "" : ";") + one;
  return {.verdict = verdict,
          .subject = "",
          .evidence =
              "setpci lasts until the next boot, and ends the isolation of the devices below "
              "these ports from each other, which matters to virtual machines that own them",
          .fix = fmt::format("for good: disable ACS in the firmware, or boot with "
                             "'pci=disable_acs_redir={}' (quoted)",
                             list),
          .steps = {},
          .needs = ""};
}

// The IOMMU group of a function, by its number; "" where it has none.
std::string iommu_group_of(const Host& host, const topology::Bdf& bdf) {
  std::error_code absent;
  return fs::canonical(pci_path(host, bdf) / "iommu_group", absent).filename().string();
}

// Linux separates the IOMMU groups of a GPU and an HCA on one switch only where its ports redirect.
// That was so at boot; a script may have cleared the bits since.
std::string groups_hint(const Host& host, const std::vector<GpuRailPair>& pairs) {
  const Machine& machine = machine_of(host);
  for (const GpuRailPair& pair : pairs) {
    if (pair.turning_ports.empty()) continue;
    const std::string gpu = iommu_group_of(host, machine.gpus[pair.gpu].bdf);
    const std::string hca = iommu_group_of(host, *machine.hcas[pair.hca].bdf);
    if (gpu.empty() || hca.empty() || gpu == hca) continue;
    return fmt::format(
        "; {} have IOMMU groups of their own ({} and {}), so that ACS redirected at boot",
        pair.name, gpu, hca);
  }
  return "";
}

// Pairs without a switch in common, whose traffic goes over the CPU whatever the bits are, and
// pairs that sysfs does not show, as where a topology file names other addresses.
void add_other_pairs(const std::vector<GpuRailPair>& pairs, Observations* seen) {
  std::vector<std::string> apart, hidden;
  for (const GpuRailPair& pair : pairs) {
    if (!pair.is_shown) {
      hidden.push_back(pair.name);
    } else if (pair.turning_ports.empty()) {
      apart.push_back(pair.name);
    }
  }
  if (!apart.empty()) {
    seen->push_back(
        ok("", "no switch is above both of " + topo::short_list(apart) +
                   ": their traffic passes the CPU's root ports, where ACS makes it no longer"));
  }
  if (!hidden.empty()) {
    seen->push_back(unknown("", "/sys/bus/pci/devices does not show " + topo::short_list(hidden),
                            "mount the machine's /sys"));
  }
}

Observations acs_of_pairs(const Host& host, const std::vector<GpuRailPair>& pairs) {
  Observations seen;
  const bool is_virtual = is_virtual_machine(host);
  std::vector<std::string> to_clear, fine, unknown_ports;
  Verdict worst = Verdict::kOk;
  for (const auto& [address, port] : acs_ports(host, pairs)) {
    if (!port.acs.known) {
      unknown_ports.push_back(address);
    } else if ((port.acs.control.value_or(0) & kAcsToClear) != 0) {
      seen.push_back(acs_observation(address, port, is_virtual));
      worst = std::max(worst, seen.back().verdict);
      if (seen.back().verdict != Verdict::kOk) to_clear.push_back(address);
    } else {
      fine.push_back(port.acs.control.has_value()
                         ? fmt::format("{} {:#06x}", address, *port.acs.control)
                         : address + " without ACS");
    }
  }
  if (!to_clear.empty()) seen.push_back(acs_for_good(worst, to_clear));
  if (!unknown_ports.empty()) {
    seen.push_back(unknown(
        "PCIe ports " + topo::short_list(unknown_ports),
        "the kernel does not show their extended configuration space" + groups_hint(host, pairs),
        needs_for_config(host)));
  }
  if (!fine.empty()) {
    seen.push_back(ok("", "ACS does not redirect between GPUs and the HCAs of their rails: " +
                              topo::short_list(fine)));
  }
  add_other_pairs(pairs, &seen);
  if (is_virtual) {
    seen.push_back(unknown("", "this is a virtual machine, which does not show the real switches",
                           kNeedsHypervisor));
  }
  return seen;
}

}  // namespace

Observations run_pci_acs(const Host& host) {
  const std::vector<GpuRailPair> pairs = gpu_rail_pairs(host);
  if (pairs.empty()) return {nothing_on(host, "no GPU has a rail on a PCI function here")};
  return acs_of_pairs(host, pairs);
}

}  // namespace gdr::tools::doctor
