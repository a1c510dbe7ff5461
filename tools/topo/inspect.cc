#include "tools/topo/inspect.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <set>
#include <utility>

#include "plugin/config/load.h"
#include "plugin/config/nccl_conf.h"
#include "plugin/config/topology_options.h"
#include "plugin/config/values.h"
#include "plugin/config/variables.h"
#include "tools/topo/read_file.h"
#include "tools/topo/restriction.h"
#include "tools/topo/short_list.h"
#include "topology/live/acs_findings.h"
#include "topology/live/gpu_links.h"
#include "topology/live/read_machine.h"
#include "topology/sources/hwloc.h"
#include "topology/sources/sysfs.h"

namespace gdr::tools::topo {
namespace {

using topology::Machine;

constexpr char kRailMapVariable[] = "GDR_NCCL_RAIL_MAP";

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
  if (status) status = check_flag("--rail-map", kRailMapVariable, options.rail_map);
  return status;
}

// Returns what is set, whether or not it can be used.
UserSettings user_settings(const InspectOptions& options) {
  const std::pair<const char*, const std::optional<std::string>&> known[] = {
      {"NCCL_NET_GDR_LEVEL", options.gdr_level},
      {"NCCL_IB_HCA", options.hca},
      {kRailMapVariable, options.rail_map}};
  UserSettings settings;
  for (const auto& [name, option] : known) {
    if (auto setting = read_setting(name, option)) settings.emplace(name, *setting);
  }
  return settings;
}

// Returns the variables with a value that cannot be used, which are the subjects of errors.
UserSettings unusable_settings(const Findings& findings) {
  UserSettings settings;
  for (const Finding& finding : findings) {
    if (finding.severity != Severity::kError) continue;
    if (auto setting = read_setting(finding.subject, {})) {
      settings.emplace(finding.subject, *setting);
    }
  }
  return settings;
}

Result<config::Options> options_of(const InspectOptions& options, Findings* findings) {
  config::Environment environment = config::process_environment_with_nccl_conf();
  override("NCCL_NET_GDR_LEVEL", options.gdr_level, &environment);
  override("NCCL_IB_HCA", options.hca, &environment);
  override(kRailMapVariable, options.rail_map, &environment);
  // A bad value in the environment is only reported; a bad value on the command line is an error.
  if (Status usable = check_flags(options); !usable) return forward_error(usable);
  return config::load(environment, findings);
}

constexpr char kExcluded[] = " is excluded by NCCL_IB_HCA";  // as in transport/device/hca.cc

std::vector<std::string> labels_of(const Machine& machine,
                                   const std::function<bool(const std::string&, int)>& matches) {
  std::vector<std::string> labels;
  for (const topology::Hca& hca : machine.hcas) {
    for (const topology::Port& port : hca.ports) {
      if (matches(hca.name, port.number)) {
        labels.push_back(hca.name + ":" + std::to_string(port.number));
      }
    }
  }
  return labels;
}

// Whether the list of the user accepts a port, by the HCA's name and the port's number.
using Accepts = std::function<bool(const std::string&, int)>;

// Returns what NCCL_IB_HCA accepts of a machine in a file or in sysfs. It names HCAs as verbs does:
// those without such a name are accepted, with a note. But --hca names them as they are shown.
Accepts accepted_by(const Machine& machine, const config::Options& settings,
                    const InspectOptions& asked, Findings* findings) {
  const transport::HcaFilter& filter = settings.hcas;
  std::set<std::string> nameless;
  for (const topology::Hca& hca : machine.hcas) {
    const bool all = std::all_of(hca.ports.begin(), hca.ports.end(), [&](const auto& port) {
      return filter.accepts(hca.name, port.number);
    });
    if (!hca.named && !all && !asked.hca.has_value()) nameless.insert(hca.name);
  }
  if (!nameless.empty()) {
    findings->push_back({Severity::kInfo, setting_text(user_settings(asked), "NCCL_IB_HCA"),
                         "does not apply to " + short_list({nameless.begin(), nameless.end()}) +
                             ": the source does not have the names of these HCAs",
                         ""});
  }
  return [filter, nameless](const std::string& hca, int port) {
    return nameless.contains(hca) || filter.accepts(hca, port);
  };
}

std::vector<std::string> excluded_by(const Machine& machine, const Accepts& accepts) {
  std::vector<std::string> excluded =
      labels_of(machine, [&](const std::string& hca, int port) { return !accepts(hca, port); });
  for (std::string& one : excluded) one += kExcluded;
  return excluded;
}

bool loses_by(const topology::RailDecision& chosen, const topology::RailDecision& free) {
  return !restriction_of(chosen, free).gpus.empty();
}

// The two settings by which a user chooses ports and rails.
struct Choices {
  bool list = false;  // NCCL_IB_HCA
  bool map = false;
};

// Returns the decision without these settings of the user; `all` is the machine with all of its
// ports.
topology::RailDecision decide_without(const Choices& dropped, const Machine& all,
                                      const config::Options& settings,
                                      const Inspection& inspection) {
  topology::DecisionOptions options{inspection.decision.prediction.settings(), {}, {}};
  const Machine& machine = dropped.list ? all : inspection.decision.machine;
  if (!dropped.list) {
    options.rails.named = config::decision_options(settings, machine).rails.named;
  }
  if (!dropped.map && inspection.settings.contains(kRailMapVariable)) {
    options.rails.map = settings.rail_map;
  }
  return topology::decide(machine, std::move(options), {});
}

// Returns which of the two makes GPUs lose; both where neither does alone. `free` is the decision
// without either.
Choices restricting_of(const Choices& in_force, const topology::RailDecision& free,
                       const Machine& all, const config::Options& settings,
                       const Inspection& inspection) {
  if (!in_force.list || !in_force.map) return in_force;
  const Choices list{true, false}, map{false, true};
  const Choices found{loses_by(decide_without(map, all, settings, inspection), free),
                      loses_by(decide_without(list, all, settings, inspection), free)};
  const bool one_only = found.list != found.map;
  return one_only && loses_by(inspection.decision, decide_without(found, all, settings, inspection))
             ? found
             : in_force;
}

// Fills Inspection::unrestricted, restricted_by and restricting; `all` is the machine with all of
// its ports.
void decide_unrestricted(const Machine& all, const config::Options& settings,
                         Inspection* inspection) {
  const auto& reasons = inspection->not_offered;
  const bool has_excluded = std::any_of(reasons.begin(), reasons.end(), [](const auto& reason) {
    return reason.ends_with(kExcluded);
  });
  const Choices in_force{has_excluded, inspection->settings.contains(kRailMapVariable)};
  if (!in_force.list && !in_force.map) return;
  const topology::RailDecision free = decide_without(in_force, all, settings, *inspection);
  if (!loses_by(inspection->decision, free)) return;
  const Choices found = restricting_of(in_force, free, all, settings, *inspection);
  inspection->unrestricted = decide_without(found, all, settings, *inspection);
  if (found.list) inspection->restricting.push_back("NCCL_IB_HCA");
  if (found.map) inspection->restricting.push_back(kRailMapVariable);
  for (const std::string& name : inspection->restricting) {
    std::string& text = inspection->restricted_by;
    text += (text.empty() ? "" : " and ") + setting_text(inspection->settings, name);
  }
}

// Adds a finding for each entry of NCCL_IB_HCA that matches no port of the machine: a warning, or a
// note in a list of exclusions, which often names what only some machines have.
void add_unmatched(const Machine& all, const config::Options& settings, const InspectOptions& asked,
                   Findings* findings) {
  std::vector<std::pair<std::string, int>> ports;
  for (const topology::Hca& hca : all.hcas) {
    if (!hca.named) return;
    for (const topology::Port& port : hca.ports) ports.emplace_back(hca.name, port.number);
  }
  if (ports.empty()) return;
  const std::string subject = setting_text(user_settings(asked), "NCCL_IB_HCA");
  for (const std::string& entry : settings.hcas.entries_without_port(ports)) {
    findings->push_back({settings.hcas.excludes() ? Severity::kInfo : Severity::kWarning, subject,
                         config::quoted(entry) + " matches no port of this machine",
                         settings.hcas.excludes() ? "" : "correct the name, or take it out"});
  }
}

std::string names_of_hcas(const Machine& machine) {
  std::string names;
  for (const topology::Hca& hca : machine.hcas) names += (names.empty() ? "" : ", ") + hca.name;
  return names;
}

// Fails where a list given for --hca leaves nothing of the HCAs `existing`.
Status check_hca_list(const InspectOptions& options, const std::string& existing,
                      const Machine& machine) {
  if (!options.hca.has_value() || existing.empty() || !machine.hcas.empty()) return {};
  return fail(Code::kInvalidUsage,
              to_string({Severity::kError, "--hca",
                         config::quoted(*options.hca) + " accepts no port of this machine",
                         "choose from its HCAs: " + existing}));
}

Result<topology::nccl::Release> release_of(const InspectOptions& options, Findings* findings) {
  using topology::nccl::Release;
  if (!options.nccl_version.has_value()) return topology::nccl::kNewestRelease;
  Result<Release> release = Release::parse(*options.nccl_version);
  const std::string newest = topology::nccl::kNewestRelease.to_string();
  if (!release || release->major != topology::nccl::kNewestRelease.major) {
    return fail(Code::kInvalidUsage,
                to_string({Severity::kError, "--nccl-version",
                           config::quoted(*options.nccl_version) +
                               " cannot be used: it is not a release of NCCL 2",
                           "use one such as 2.28.9 or 2.28; the newest known is " + newest}));
  }
  const std::string note = topology::nccl::note_on_rules(*release);
  if (!note.empty()) findings->push_back({Severity::kInfo, "--nccl-version", note, ""});
  return release;
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
  Machine all;  // with the ports that NCCL_IB_HCA excludes, too, by the names of verbs
  std::vector<std::string> not_offered;
  std::string existing_hcas;  // of sysfs, whether accepted or not: "mlx5_0, mlx5_1"
};

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

LiveMachine read_live(const config::Options& options, const InspectOptions& asked,
                      Findings* findings) {
  Machine machine = topology::read_machine(config::read_options(options), findings);
  (void)topology::add_gpu_links(&machine, topology::LoadNvml::kYes);
  add_unmatched(machine, options, asked, findings);
  std::string existing = names_of_hcas(machine);
  Result<std::shared_ptr<const verbs::Api>> verbs = verbs::Api::load(options.verbs_library);
  Result<transport::Discovery> found =
      verbs ? transport::discover_devices(
                  *verbs, config::discovery_options(options, /*table_can_flush=*/true))
            : Result<transport::Discovery>(forward_error(verbs));
  if (!found) {
    findings->push_back(
        {Severity::kInfo, "", "HCAs are those of sysfs: " + found.error().text, ""});
    Machine all = machine;
    const Accepts accepts = accepted_by(all, options, asked, findings);
    topology::keep_accepted(&machine, accepts);
    return {std::move(machine), all, excluded_by(all, accepts), std::move(existing)};
  }
  findings->insert(findings->end(), found->findings.begin(), found->findings.end());
  Machine all = with_all_ports(machine, *verbs, options);
  if (!all.hcas.empty()) existing = names_of_hcas(all);
  topology::replace_hcas(&machine, config::verbs_ports(*found, config::allowed_paths(options)));
  std::vector<std::string> reasons = not_offered(std::move(*found));
  return {std::move(machine), std::move(all), std::move(reasons), std::move(existing)};
}

// Decides as the plugin does, but fails on a map given on the command line that does not fit.
// Inspection::settings is filled.
Result<Inspection> decide(Machine machine, const InspectOptions& asked,
                          const config::Options& settings, Findings findings) {
  topology::DecisionOptions options = config::decision_options(settings, machine);
  Result<topology::nccl::Release> release = release_of(asked, &findings);
  if (!release) return forward_error(release);
  options.nccl.release = *release;
  UserSettings unusable = unusable_settings(findings);
  topology::RailDecision decision =
      topology::decide(std::move(machine), std::move(options), std::move(findings));
  UserSettings set = user_settings(asked);
  if (!settings.rail_map.has_value()) set.erase(kRailMapVariable);
  if (settings.rail_map.has_value()) {
    Result<topology::RailPlan> plan =
        topology::plan_rails(decision.machine, decision.paths, {{}, settings.rail_map});
    if (!plan && asked.rail_map.has_value()) return forward_error(plan);
    if (!plan) unusable.insert(set.extract(kRailMapVariable));
  }
  return Inspection{
      .decision = std::move(decision), .settings = std::move(set), .unusable = std::move(unusable)};
}

// Sets a variable of the environment for its lifetime.
class VariableFor {
 public:
  VariableFor(const char* name, const std::string& value) : name_(name) {
    const char* before = std::getenv(name);
    if (before != nullptr) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~VariableFor() {
    if (before_.has_value()) {
      setenv(name_, before_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  VariableFor(const VariableFor&) = delete;
  VariableFor& operator=(const VariableFor&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

// Reads a folder with the /sys and /proc of another machine, as hwloc-gather-topology packs them.
Result<Machine> read_gathered(const std::string& folder, const topology::Selection& selection) {
  std::error_code unreadable;
  if (!std::filesystem::is_directory(std::filesystem::path(folder) / "sys" / "devices",
                                     unreadable)) {
    return fail(Code::kInvalidUsage,
                folder +
                    " is a folder without sys/devices: expected one that hwloc-gather-topology "
                    "packed, unpacked");
  }
  const VariableFor root("HWLOC_FSROOT", folder);
  Result<Machine> machine = topology::hwloc_live(selection);
  if (!machine) {
    machine = topology::sysfs_machine(std::filesystem::path(folder) / "sys", selection);
  }
  return machine;
}

Result<Inspection> inspect_live(const InspectOptions& options, const config::Options& settings,
                                Findings findings) {
  LiveMachine live = read_live(settings, options, &findings);
  Status accepted = check_hca_list(options, live.existing_hcas, live.machine);
  if (!accepted) return forward_error(accepted);
  auto made = decide(std::move(live.machine), options, settings, std::move(findings));
  if (!made) return made;
  const size_t before = made->decision.findings.size();
  topology::add_acs_findings(&made->decision);
  made->acs_findings = made->decision.findings.size() - before;
  made->not_offered = std::move(live.not_offered);
  made->sysfs_root = "/sys";
  decide_unrestricted(live.all, settings, &*made);
  return made;
}

}  // namespace

Result<Inspection> inspect(const InspectOptions& options) {
  Findings findings;
  Result<config::Options> settings = options_of(options, &findings);
  if (!settings) return forward_error(settings);
  if (options.from == "live") return inspect_live(options, *settings, std::move(findings));
  topology::Selection selection = config::gpu_selection(*settings);
  std::error_code unreadable;
  const bool is_folder = std::filesystem::is_directory(options.from, unreadable);
  Result<Machine> machine = is_folder ? read_gathered(options.from, selection)
                                      : read_file(options.from, selection, options.host);
  if (!machine) return forward_error(machine);
  if (machine->hosts > 1 && !options.host.has_value()) {
    findings.push_back({Severity::kInfo, "",
                        "the file describes " + std::to_string(machine->hosts) +
                            " hosts, and this is the first; --host shows another or all of them",
                        ""});
  }
  add_unmatched(*machine, *settings, options, &findings);
  const std::string existing_hcas = names_of_hcas(*machine);
  const Machine all = *machine;
  const Accepts accepts = accepted_by(all, *settings, options, &findings);
  topology::keep_accepted(&*machine, accepts);
  Status accepted = check_hca_list(options, existing_hcas, *machine);
  if (!accepted) return forward_error(accepted);
  auto made = decide(std::move(*machine), options, *settings, std::move(findings));
  if (!made) return made;
  made->not_offered = excluded_by(all, accepts);
  if (is_folder) made->sysfs_root = std::filesystem::path(options.from) / "sys";
  decide_unrestricted(all, *settings, &*made);
  return made;
}

}  // namespace gdr::tools::topo
