#include "tools/topo/hca_list.h"

#include <algorithm>
#include <set>
#include <utility>

#include "plugin/config/values.h"
#include "tools/topo/text_table.h"
#include "transport/device/hca_filter.h"

namespace gdr::tools::topo {
namespace {

using topology::Machine;
using transport::SkippedPort;

}  // namespace

Accepts accepted_by(const Machine& machine, const InspectSettings& settings, Findings* findings) {
  const transport::HcaFilter& filter = settings.options.hcas;
  std::set<std::string> nameless;
  for (const topology::Hca& hca : machine.hcas) {
    const bool all = std::all_of(hca.ports.begin(), hca.ports.end(), [&](const auto& port) {
      return filter.accepts(hca.name, port.number);
    });
    if (!hca.named && !all && !settings.asked.hca.has_value()) nameless.insert(hca.name);
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

std::vector<SkippedPort> excluded_by(const Machine& machine, const Accepts& accepts) {
  std::vector<SkippedPort> excluded;
  for (const topology::Hca& hca : machine.hcas) {
    for (const topology::Port& port : hca.ports) {
      if (accepts(hca.name, port.number)) continue;
      excluded.push_back({FindingKind::kHcaExcluded, hca.name + ":" + std::to_string(port.number),
                          transport::HcaFilter::kExcluded});
    }
  }
  return excluded;
}

bool has_excluded(const std::vector<SkippedPort>& skipped) {
  return std::any_of(skipped.begin(), skipped.end(),
                     [](const SkippedPort& one) { return one.kind == FindingKind::kHcaExcluded; });
}

void add_list_findings(const Machine& all, const InspectSettings& settings, Findings* findings) {
  transport::HcaFilter::Ports ports;
  for (const topology::Hca& hca : all.hcas) {
    if (!hca.named) return;
    for (const topology::Port& port : hca.ports) ports.emplace_back(hca.name, port.number);
  }
  for (Finding& finding : settings.options.hcas.findings_on(ports)) {
    finding.subject = setting_text(settings.set, kHcaVariable);
    // --hca is of this machine, and not of a whole site.
    if (settings.asked.hca && !settings.options.hcas.excludes()) {
      finding.severity = Severity::kWarning;
    }
    findings->push_back(std::move(finding));
  }
}

std::string names_of_hcas(const Machine& machine) {
  std::string names;
  for (const topology::Hca& hca : machine.hcas) names += (names.empty() ? "" : ", ") + hca.name;
  return names;
}

Status check_hca_list(const InspectOptions& asked, const std::string& existing,
                      const Machine& machine) {
  if (!asked.hca.has_value() || existing.empty() || !machine.hcas.empty()) return {};
  return fail(Code::kInvalidUsage,
              to_string({FindingKind::kBadValue, Severity::kError, "--hca",
                         config::quoted(*asked.hca) + " accepts no port of this machine",
                         "choose from its HCAs: " + existing}));
}

}  // namespace gdr::tools::topo
