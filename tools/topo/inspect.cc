#include "tools/topo/inspect.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "plugin/config/load.h"
#include "plugin/config/topology_options.h"
#include "plugin/config/values.h"
#include "plugin/config/variables.h"
#include "tools/topo/file_format.h"
#include "topology/live/acs_findings.h"
#include "topology/live/gpu_links.h"
#include "topology/live/read_machine.h"
#include "topology/sources/hwloc.h"
#include "topology/sources/nccl_xml.h"
#include "topology/sources/sysfs.h"

namespace gdr::tools::topo {
namespace {

using topology::Machine;

void override(const char* name, const std::optional<std::string>& value,
              config::Environment* environment) {
  if (value.has_value()) (*environment)[name] = *value;
}

// Fails where `value`, given for the option `flag`, cannot be a value of the variable `name`.
Status check_flag(const char* flag, const std::string& name,
                  const std::optional<std::string>& value) {
  if (!value.has_value() || value->empty()) return {};
  for (const config::Variable& variable : config::variables()) {
    if (variable.name != name) continue;
    config::Options unused;
    std::vector<std::string> notes;
    Status status = variable.assign(*value, &unused, &notes);
    if (!status) {
      return fail(Code::kInvalidUsage,
                  to_string({Severity::kError, flag,
                             config::quoted(*value) + " cannot be used: " + status.error().text,
                             "use " + variable.accepted}));
    }
  }
  return {};
}

Status check_flags(const InspectOptions& options) {
  Status status = check_flag("--gdr-level", "NCCL_NET_GDR_LEVEL", options.gdr_level);
  if (status) status = check_flag("--hca", "NCCL_IB_HCA", options.hca);
  if (status) status = check_flag("--rail-map", "GDR_NCCL_RAIL_MAP", options.rail_map);
  return status;
}

Result<config::Options> options_of(const InspectOptions& options, Findings* findings) {
  config::Environment environment = config::process_environment();
  override("NCCL_NET_GDR_LEVEL", options.gdr_level, &environment);
  override("NCCL_IB_HCA", options.hca, &environment);
  override("GDR_NCCL_RAIL_MAP", options.rail_map, &environment);
  // A bad value in the environment is only reported; a bad value on the command line is an error.
  if (Status usable = check_flags(options); !usable) return forward_error(usable);
  return config::load(environment, findings);
}

void keep_accepted(Machine* machine, const transport::HcaFilter& filter) {
  topology::keep_accepted(
      machine, [&](const std::string& hca, int port) { return filter.accepts(hca, port); });
}

Result<Machine> read_file(const std::string& file, const topology::Selection& selection) {
  Result<FileFormat> format = file_format_of(file);
  if (!format) return forward_error(format);
  return *format == FileFormat::kHwloc ? topology::hwloc_xml(file, selection)
                                       : topology::nccl_xml(file, selection);
}

// Returns what discovery skipped, but for ports that are only not active: they are HCAs' ports like
// the others, and shown as down.
std::vector<std::string> not_offered(transport::Discovery discovery) {
  std::erase_if(discovery.skipped, [&](const std::string& reason) {
    return std::any_of(
        discovery.inactive.begin(), discovery.inactive.end(), [&](const transport::Device& device) {
          return reason.starts_with(device.hca->name() + ":" + std::to_string(device.port) + " ");
        });
  });
  return std::move(discovery.skipped);
}

struct LiveMachine {
  Machine machine;
  std::vector<std::string> not_offered;
};

LiveMachine read_live(const config::Options& options, Findings* findings) {
  Machine machine = topology::read_machine(config::read_options(options), findings);
  (void)topology::add_gpu_links(&machine, topology::LoadNvml::kYes);
  Result<std::shared_ptr<const verbs::Api>> verbs = verbs::Api::load(options.verbs_library);
  Result<transport::Discovery> found =
      verbs ? transport::discover_devices(
                  *verbs, config::discovery_options(options, /*table_can_flush=*/true))
            : Result<transport::Discovery>(forward_error(verbs));
  if (!found) {
    findings->push_back(
        {Severity::kInfo, "", "HCAs are those of sysfs: " + found.error().text, ""});
    keep_accepted(&machine, options.hcas);
    return {std::move(machine), {}};
  }
  findings->insert(findings->end(), found->findings.begin(), found->findings.end());
  topology::replace_hcas(&machine, config::verbs_ports(*found, config::allowed_paths(options)));
  return {std::move(machine), not_offered(std::move(*found))};
}

// Decides as the plugin does, but fails on a map given on the command line that does not fit.
Result<topology::RailDecision> decide(Machine machine, const InspectOptions& asked,
                                      const config::Options& settings, Findings findings) {
  topology::DecisionOptions options = config::decision_options(settings, machine);
  topology::RailDecision decision =
      topology::decide(std::move(machine), std::move(options), std::move(findings));
  if (!asked.rail_map.has_value()) return decision;
  Result<topology::RailPlan> plan =
      topology::plan_rails(decision.machine, decision.paths, {{}, settings.rail_map});
  if (!plan) return forward_error(plan);
  return decision;
}

// Reads a folder with the /sys and /proc of another machine, as hwloc-gather-topology packs them.
Result<Machine> read_gathered(const std::string& folder, const topology::Selection& selection) {
  setenv("HWLOC_FSROOT", folder.c_str(), 1);
  Result<Machine> machine = topology::hwloc_live(selection);
  if (!machine) {
    machine = topology::sysfs_machine(std::filesystem::path(folder) / "sys", selection);
  }
  return machine;
}

}  // namespace

Result<Inspection> inspect(const InspectOptions& options) {
  Findings findings;
  Result<config::Options> settings = options_of(options, &findings);
  if (!settings) return forward_error(settings);
  if (options.from == "live") {
    LiveMachine live = read_live(*settings, &findings);
    auto decision = decide(std::move(live.machine), options, *settings, std::move(findings));
    if (!decision) return forward_error(decision);
    topology::add_acs_findings(&*decision);
    return Inspection{std::move(*decision), std::move(live.not_offered)};
  }
  topology::Selection selection = config::gpu_selection(*settings);
  std::error_code unreadable;
  Result<Machine> machine = std::filesystem::is_directory(options.from, unreadable)
                                ? read_gathered(options.from, selection)
                                : read_file(options.from, selection);
  if (!machine) return forward_error(machine);
  keep_accepted(&*machine, settings->hcas);
  auto decision = decide(std::move(*machine), options, *settings, std::move(findings));
  if (!decision) return forward_error(decision);
  return Inspection{std::move(*decision), {}};
}

}  // namespace gdr::tools::topo
