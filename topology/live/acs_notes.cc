#include "topology/live/acs_notes.h"

#include <set>
#include <system_error>

#include "topology/sources/pci_acs.h"

namespace gdr::topology {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxLines = 8;

struct Pair {
  size_t gpu;
  size_t hca;
};

bool crosses_a_switch_directly(const RailDecision& view, const Pair& pair) {
  size_t through = pair.gpu;
  PathClass path = view.paths.gpu_hca_with_pxn(pair.gpu, pair.hca, &through);
  if (path != PathClass::kPix && path != PathClass::kPxb) return false;
  auto [send, receive] = gdr_verdicts(view.machine, view.paths, view.policy, pair.gpu, pair.hca);
  return send.direct || receive.direct;
}

// Of each GPU with the HCAs that NCCL is to use for it.
std::vector<Pair> direct_pairs(const RailDecision& view) {
  std::vector<Pair> pairs;
  for (size_t gpu = 0; gpu < view.machine.gpus.size(); ++gpu) {
    std::set<int> hcas;
    for (int rail : view.plan.gpus[gpu].rails) hcas.insert(view.plan.rails[rail].port.hca);
    for (int hca : hcas) {
      Pair pair{gpu, static_cast<size_t>(hca)};
      if (crosses_a_switch_directly(view, pair)) pairs.push_back(pair);
    }
  }
  return pairs;
}

// Empty where the machine has no such function.
fs::path folder_of(const Bdf& bdf, const fs::path& sysfs_root) {
  std::error_code ignored;
  return fs::canonical(sysfs_root / "bus" / "pci" / "devices" / bdf.to_string(), ignored);
}

struct Redirects {
  std::string ports;  // "0000:19:00.0, 0000:19:01.0"
  bool unknown = false;
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

std::string warning_of(const RailDecision& view, const Pair& pair, const std::string& ports) {
  return "GPU" + std::to_string(pair.gpu) + " and " + view.machine.hcas[pair.hca].name +
         ": ACS redirects peer-to-peer traffic at " + ports +
         " through the CPU, which costs GPUDirect much of its bandwidth: switch ACS off in the "
         "firmware, or its redirect bits with setpci";
}

}  // namespace

void note_acs(RailDecision* view, const fs::path& sysfs_root) {
  if (view->machine.nccl_file) return;  // its tree is not the one that sysfs shows
  size_t redirected = 0;
  bool unknown = false;
  for (const Pair& pair : direct_pairs(*view)) {
    const auto& hca = view->machine.hcas[pair.hca].bdf;
    if (!hca.has_value()) continue;
    Redirects found = redirects_between(view->machine.gpus[pair.gpu].bdf, *hca, sysfs_root);
    unknown = unknown || found.unknown;
    if (found.ports.empty() || ++redirected > kMaxLines) continue;
    view->notes.warnings.push_back(warning_of(*view, pair, found.ports));
  }
  if (redirected > kMaxLines) {
    view->notes.warnings.push_back("ACS redirects as much between " +
                                   std::to_string(redirected - kMaxLines) + " more pairs");
  }
  if (unknown && redirected == 0) {
    view->notes.infos.push_back(
        "whether ACS redirects GPUDirect through the CPU is unknown: that takes CAP_SYS_ADMIN to "
        "read (sudo lspci -vvv: ReqRedir and CmpltRedir in ACSCtl)");
  }
}

}  // namespace gdr::topology
