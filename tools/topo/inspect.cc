#include "tools/topo/inspect.h"

#include <cstdlib>
#include <filesystem>

#include "plugin/hcas.h"
#include "tools/topo/file_format.h"
#include "topology/live/gpu_links.h"
#include "topology/live/read_machine.h"
#include "topology/sources/hwloc.h"
#include "topology/sources/nccl_xml.h"
#include "topology/sources/sysfs.h"

namespace gdr::tools {
namespace {

using topology::Machine;

void override(const char* name, const std::optional<std::string>& value,
              config::Environment* environment) {
  if (value.has_value()) (*environment)[name] = *value;
}

Result<config::Options> options_of(const InspectOptions& options, topology::Notes* notes) {
  config::Environment environment = config::process_environment();
  override("NCCL_NET_GDR_LEVEL", options.gdr_level, &environment);
  override("NCCL_IB_HCA", options.hca, &environment);
  override("GDR_NCCL_RAIL_MAP", options.rail_map, &environment);
  std::vector<config::Diagnostic> diagnostics;
  config::Options read = config::load(environment, &diagnostics);
  for (const config::Diagnostic& diagnostic : diagnostics) {
    // What stands in the environment is only told of; what was asked for here has to be right.
    bool asked = (options.gdr_level && diagnostic.variable == "NCCL_NET_GDR_LEVEL") ||
                 (options.hca && diagnostic.variable == "NCCL_IB_HCA") ||
                 (options.rail_map && diagnostic.variable == "GDR_NCCL_RAIL_MAP");
    if (asked && diagnostic.rejected) return fail(Code::kInvalidUsage, diagnostic.text);
    notes->warnings.push_back(diagnostic.text);
  }
  return read;
}

Result<Machine> read_file(const std::string& file, const topology::Selection& selection) {
  Result<FileFormat> format = file_format_of(file);
  if (!format) return forward_error(format);
  return *format == FileFormat::kHwloc ? topology::hwloc_xml(file, selection)
                                       : topology::nccl_xml(file, selection);
}

Machine read_live(const config::Options& options, topology::Notes* notes) {
  Machine machine = topology::read_machine(options, notes);
  (void)topology::add_gpu_links(&machine, topology::LoadNvml::kYes);
  Result<std::shared_ptr<const verbs::Api>> verbs = verbs::Api::load();
  Result<transport::Discovery> found = verbs ? transport::discover_devices(*verbs, options.hcas)
                                             : Result<transport::Discovery>(forward_error(verbs));
  if (!found) {
    notes->infos.push_back("HCAs are those of sysfs: " + found.error().text);
    plugin::keep_accepted(&machine, options.hcas);
    return machine;
  }
  found->devices.insert(found->devices.end(), found->inactive.begin(), found->inactive.end());
  plugin::replace_hcas(&machine, found->devices, plugin::allowed_paths(options));
  return machine;
}

// The plugin goes on without a map that does not fit; who asks for one here wants to know.
Result<topology::RailDecision> decide(Machine machine, const InspectOptions& asked,
                                      const config::Options& settings, topology::Notes notes) {
  topology::RailDecision view = topology::decide(std::move(machine), settings, std::move(notes));
  if (!asked.rail_map.has_value()) return view;
  Result<topology::RailPlan> plan =
      topology::plan_rails(view.machine, view.paths, {{}, settings.rail_map});
  if (!plan) return forward_error(plan);
  return view;
}

// A folder with another machine's /sys and /proc.
Result<Machine> read_gathered(const std::string& folder, const topology::Selection& selection) {
  setenv("HWLOC_FSROOT", folder.c_str(), 1);
  Result<Machine> machine = topology::hwloc_live(selection);
  if (!machine) {
    machine = topology::sysfs_machine(std::filesystem::path(folder) / "sys", selection);
  }
  return machine;
}

}  // namespace

Result<topology::RailDecision> inspect(const InspectOptions& options) {
  topology::Notes notes;
  Result<config::Options> settings = options_of(options, &notes);
  if (!settings) return forward_error(settings);
  if (options.from == "live") {
    Machine machine = read_live(*settings, &notes);
    return decide(std::move(machine), options, *settings, std::move(notes));
  }
  topology::Selection selection = topology::selection_of(*settings);
  std::error_code unreadable;
  Result<Machine> machine = std::filesystem::is_directory(options.from, unreadable)
                                ? read_gathered(options.from, selection)
                                : read_file(options.from, selection);
  if (!machine) return forward_error(machine);
  plugin::keep_accepted(&*machine, settings->hcas);
  return decide(std::move(*machine), options, *settings, std::move(notes));
}

}  // namespace gdr::tools
