#include "topology/live/acs_findings.h"

#include <set>
#include <system_error>

#include "topology/live/gdr_verdict.h"
#include "topology/sources/pci_acs.h"

namespace gdr::topology {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFindings = 8;

struct Pair {
  size_t gpu;
  size_t hca;
};

bool crosses_a_switch_directly(const RailDecision& decision, const Pair& pair) {
  PathClass path = decision.paths.gpu_hca(pair.gpu, pair.hca);
  if (path != PathClass::kPix && path != PathClass::kPxb) return false;
  return gdr_verdict(decision, pair.gpu, pair.hca).direct;
}

// Each GPU paired with the HCAs of its rails, where GPUDirect would cross a switch.
std::vector<Pair> direct_pairs(const RailDecision& decision) {
  std::vector<Pair> pairs;
  for (size_t gpu = 0; gpu < decision.machine.gpus.size(); ++gpu) {
    std::set<int> hcas;
    for (const Rail* rail : decision.plan.rails_of(gpu)) hcas.insert(rail->port.hca);
    for (int hca : hcas) {
      Pair pair{gpu, static_cast<size_t>(hca)};
      if (crosses_a_switch_directly(decision, pair)) pairs.push_back(pair);
    }
  }
  return pairs;
}

// The sysfs folder of a PCI function, with links resolved; empty where there is none.
fs::path folder_of(const Bdf& bdf, const fs::path& sysfs_root) {
  std::error_code ignored;
  return fs::canonical(sysfs_root / "bus" / "pci" / "devices" / bdf.to_string(), ignored);
}

struct Redirects {
  std::string ports;     // that redirect: "0000:19:00.0, 0000:19:01.0"
  bool unknown = false;  // some port's ACS registers could not be read
};

Redirects redirects_between(const Bdf& gpu, const Bdf& hca, const fs::path& sysfs_root) {
  Redirects found;
  fs::path from = folder_of(gpu, sysfs_root), to = folder_of(hca, sysfs_root);
  for (const fs::path& port : turning_ports(from, to)) {
    Acs acs = read_acs(port);
    if (!acs.known) found.unknown = true;
    if (!acs.redirects()) continue;
    found.ports += (found.ports.empty() ? "" : ", ") + port.filename().string();
  }
  return found;
}

Finding redirect_finding(const RailDecision& decision, const Pair& pair, const std::string& ports) {
  return {FindingKind::kAcs, Severity::kWarning,
          "GPU" + std::to_string(pair.gpu) + " and " + decision.machine.hcas[pair.hca].name,
          "ACS redirects peer-to-peer traffic at " + ports +
              " through the CPU, which costs GPUDirect much of its bandwidth",
          "disable ACS in the firmware, or clear its redirect bits with setpci"};
}

}  // namespace

void add_acs_findings(RailDecision* decision, const fs::path& sysfs_root) {
  if (decision->machine.nccl_file) return;
  size_t redirected = 0;
  bool unknown = false;
  for (const Pair& pair : direct_pairs(*decision)) {
    const auto& hca = decision->machine.hcas[pair.hca].bdf;
    if (!hca.has_value()) continue;
    Redirects found = redirects_between(decision->machine.gpus[pair.gpu].bdf, *hca, sysfs_root);
    unknown = unknown || found.unknown;
    if (found.ports.empty() || ++redirected > kMaxFindings) continue;
    decision->findings.push_back(redirect_finding(*decision, pair, found.ports));
  }
  if (redirected > kMaxFindings) {
    decision->findings.push_back({FindingKind::kAcs, Severity::kWarning, "",
                                  "ACS redirects peer-to-peer traffic between " +
                                      std::to_string(redirected - kMaxFindings) + " more pairs",
                                  ""});
  }
  if (unknown && redirected == 0) {
    decision->findings.push_back(
        {FindingKind::kAcsUnknown, Severity::kInfo, "",
         "whether ACS redirects GPUDirect through the CPU is unknown: that takes CAP_SYS_ADMIN to "
         "read",
         "look at ReqRedir and CmpltRedir in the ACSCtl lines of sudo lspci -vvv"});
  }
}

}  // namespace gdr::topology
