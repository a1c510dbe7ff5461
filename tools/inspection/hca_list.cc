#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "plugin/config/values.h"
#include "plugin/discovery/discovery.h"
#include "tools/inspection/rdma_devices.h"
#include "tools/inspection/restriction.h"
#include "tools/inspection/text_table.h"
#include "topology/live/verbs_ports.h"
#include "topology/sources/sysfs_files.h"

namespace gdr::tools::topo {
namespace {

using discovery::SkippedPort;
using topology::Machine;

// Whether the list accepts a port, by the HCA's name and the port's number.
using Accepts = std::function<bool(const std::string&, int)>;

Accepts accepted_by(const Machine& machine, const InspectSettings& settings, Findings* findings) {
  const discovery::HcaFilter& filter = settings.options.hcas;
  std::set<std::string> nameless;
  for (const topology::Hca& hca : machine.hcas) {
    const bool all = std::all_of(hca.ports.begin(), hca.ports.end(), [&](const auto& port) {
      return filter.accepts(hca.name, port.number);
    });
    if (!hca.named && !all) nameless.insert(hca.name);
  }
  if (!nameless.empty()) {
    findings->push_back({FindingKind::kHcaUnmatched, Severity::kInfo,
                         setting_text(settings.set, kHcaVariable),
                         "does not apply to " + short_list({nameless.begin(), nameless.end()}) +
                             ": the source does not have the names of these HCAs",
                         ""});
  }
  return [filter, nameless](const std::string& hca, int port) {
    return nameless.contains(hca) || filter.accepts(hca, port);
  };
}

RdmaKind kind_of(const std::filesystem::path& sysfs_root, const topology::Hca& hca, int port) {
  const std::filesystem::path folder = sysfs_root / "class" / "infiniband" / hca.name;
  const RdmaKind kind{topology::first_line(folder / "node_type"),
                      topology::first_line(folder / "ports" / std::to_string(port) / "link_layer")};
  return sysfs_root.empty() || kind.node_type.empty() ? kind_by_ids(hca.ids) : kind;
}

// Removes the ports that the plugin cannot use, as sysfs or the PCI IDs show them, and returns
// them.
std::vector<SkippedPort> remove_unsupported(const std::filesystem::path& sysfs_root,
                                            const discovery::HcaFilter& filter, Machine* machine) {
  std::vector<SkippedPort> removed;
  topology::keep_accepted(machine, [&](const topology::Hca& hca, int port) {
    const RdmaKind kind = kind_of(sysfs_root, hca, port);
    if (kind.node_type.empty()) return true;
    std::string reason = unsupported_reason(kind, filter.entry_for(hca.name, port) != nullptr);
    if (reason.empty()) return true;
    removed.push_back(
        {FindingKind::kHcaUnsupported, hca.name + ":" + std::to_string(port), std::move(reason)});
    return false;
  });
  return removed;
}

}  // namespace

std::vector<SkippedPort> remove_unused(const std::filesystem::path& sysfs_root,
                                       const InspectSettings& settings, Machine* machine,
                                       Machine* all, Findings* findings) {
  const Accepts accepts = accepted_by(*all, settings, findings);
  std::vector<SkippedPort> removed;
  topology::keep_accepted(machine, [&](const topology::Hca& hca, int port) {
    if (accepts(hca.name, port)) return true;
    removed.push_back({FindingKind::kHcaExcluded, hca.name + ":" + std::to_string(port),
                       discovery::HcaFilter::kExcluded});
    return false;
  });
  for (SkippedPort& one : remove_unsupported(sysfs_root, settings.options.hcas, machine)) {
    removed.push_back(std::move(one));
  }
  (void)remove_unsupported(sysfs_root, {}, all);
  return removed;
}

bool has_excluded(const std::vector<SkippedPort>& skipped) {
  return std::any_of(skipped.begin(), skipped.end(),
                     [](const SkippedPort& one) { return one.kind == FindingKind::kHcaExcluded; });
}

void add_list_findings(const Machine& all, const InspectSettings& settings, Findings* findings) {
  discovery::HcaFilter::Ports ports;
  for (const topology::Hca& hca : all.hcas) {
    if (!hca.named) return;
    for (const topology::Port& port : hca.ports) ports.emplace_back(hca.name, port.number);
  }
  for (Finding& finding : settings.options.hcas.findings_on(ports)) {
    finding.subject = setting_text(settings.set, kHcaVariable);
    findings->push_back(std::move(finding));
  }
}

}  // namespace gdr::tools::topo
