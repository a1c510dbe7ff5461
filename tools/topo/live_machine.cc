#include "tools/topo/live_machine.h"

#include <memory>
#include <optional>
#include <utility>

#include "plugin/config/topology_options.h"
#include "tools/topo/hca_list.h"
#include "topology/live/gpu_links.h"
#include "topology/live/read_machine.h"

namespace gdr::tools::topo {
namespace {

using topology::Machine;

// Returns what discovery skipped, but for ports that are only not active: they are HCAs' ports like
// the others, and shown as down.
std::vector<transport::SkippedPort> not_offered(transport::Discovery discovery) {
  std::erase_if(discovery.skipped, [](const transport::SkippedPort& one) {
    return one.kind == FindingKind::kPortDown;
  });
  return std::move(discovery.skipped);
}

// Discovers the ports of this machine once more, without NCCL_IB_HCA. A topology file without names
// of HCAs does not show which ports the list leaves out.
Machine with_all_ports(Machine machine, const std::shared_ptr<const verbs::Api>& verbs,
                       config::Options options) {
  options.hcas = {};
  Result<transport::Discovery> found =
      transport::discover_devices(verbs, config::discovery_options(options, true));
  if (found) {
    topology::replace_hcas(&machine, config::verbs_ports(*found, config::allowed_paths(options)));
  }
  return machine;
}

}  // namespace

LiveMachine read_live(const InspectSettings& settings, Findings* findings) {
  const config::Options& options = settings.options;
  Machine machine = topology::read_machine(config::read_options(options), findings);
  (void)topology::add_gpu_links(&machine, topology::LoadNvml::kYes);
  add_unmatched(machine, settings, findings);
  std::string existing = names_of_hcas(machine);
  Result<std::shared_ptr<const verbs::Api>> verbs = verbs::Api::load(options.verbs_library);
  Result<transport::Discovery> found =
      verbs ? transport::discover_devices(
                  *verbs, config::discovery_options(options, /*table_can_flush=*/true))
            : Result<transport::Discovery>(forward_error(verbs));
  if (!found) {
    findings->push_back({FindingKind::kSysfsAlone, Severity::kInfo, "",
                         "HCAs are those of sysfs: " + found.error().text, ""});
    Machine all = machine;
    const Accepts accepts = accepted_by(all, settings, findings);
    topology::keep_accepted(&machine, accepts);
    return {std::move(machine), all, excluded_by(all, accepts), std::move(existing)};
  }
  findings->insert(findings->end(), found->findings.begin(), found->findings.end());
  std::optional<Machine> with_all;
  if (has_excluded(found->skipped)) with_all = with_all_ports(machine, *verbs, options);
  topology::replace_hcas(&machine, config::verbs_ports(*found, config::allowed_paths(options)));
  Machine all = with_all.has_value() ? std::move(*with_all) : machine;
  if (!all.hcas.empty()) existing = names_of_hcas(all);
  return {std::move(machine), std::move(all), not_offered(std::move(*found)), std::move(existing)};
}

}  // namespace gdr::tools::topo
