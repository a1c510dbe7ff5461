// Decides the rails of this machine, or of one in a file: inspect() of inspection.h.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "plugin/config/topology_options.h"
#include "tools/inspection/inspect_settings.h"
#include "tools/inspection/inspection.h"
#include "tools/inspection/read_file.h"
#include "tools/inspection/restriction.h"
#include "topology/live/acs_findings.h"
#include "topology/live/gpu_links.h"
#include "topology/live/read_machine.h"

namespace gdr::tools::topo {
namespace {

using topology::Machine;

// The machine that this process runs on, with the ports that the plugin would offer.
struct LiveMachine {
  topology::Machine machine;
  topology::Machine all;  // with the ports that NCCL_IB_HCA excludes, too, by the names of verbs
  std::vector<discovery::SkippedPort> not_offered;  // as Inspection::not_offered
};

// Returns what discovery skipped, but for ports that are only not active: they are HCAs' ports like
// the others, and shown as down.
std::vector<discovery::SkippedPort> not_offered(discovery::Discovery discovery) {
  std::erase_if(discovery.skipped, [](const discovery::SkippedPort& one) {
    return one.kind == FindingKind::kPortDown;
  });
  return std::move(discovery.skipped);
}

// Discovers the ports of this machine once more, without NCCL_IB_HCA. A topology file without names
// of HCAs does not show which ports the list leaves out.
Machine with_all_ports(Machine machine, const std::shared_ptr<const verbs::Api>& verbs,
                       config::Options options) {
  options.hcas = {};
  Result<discovery::Discovery> found =
      discovery::discover_devices(verbs, config::discovery_options(options, true));
  if (found) {
    topology::replace_hcas(&machine, config::verbs_ports(*found, config::allowed_paths(options)));
  }
  return machine;
}

LiveMachine read_live(const InspectSettings& settings, Findings* findings) {
  const config::Options& options = settings.options;
  Machine machine = topology::read_machine(config::read_options(options), findings);
  (void)topology::add_gpu_links(&machine, topology::LoadNvml::kYes);
  Result<std::shared_ptr<const verbs::Api>> verbs = verbs::Api::load(options.verbs_library);
  Result<discovery::Discovery> found =
      verbs ? discovery::discover_devices(
                  *verbs, config::discovery_options(options, /*table_can_flush=*/true))
            : Result<discovery::Discovery>(forward_error(verbs));
  if (!found) {
    findings->push_back({FindingKind::kSysfsAlone, Severity::kInfo, "",
                         "HCAs are those of sysfs: " + found.error().text, ""});
    add_list_findings(machine, settings, findings);
    Machine all = machine;
    auto removed = remove_unused("/sys", settings, &machine, &all, findings);
    return {std::move(machine), std::move(all), std::move(removed)};
  }
  findings->insert(findings->end(), found->findings.begin(), found->findings.end());
  std::optional<Machine> with_all;
  if (has_excluded(found->skipped)) with_all = with_all_ports(machine, *verbs, options);
  topology::replace_hcas(&machine, config::verbs_ports(*found, config::allowed_paths(options)));
  Machine all = with_all.has_value() ? std::move(*with_all) : machine;
  return {std::move(machine), std::move(all), not_offered(std::move(*found))};
}

// Decides as the plugin does. Inspection::settings is filled.
Result<Inspection> decide(Machine machine, const InspectSettings& settings, Findings findings) {
  const std::optional<topology::RailMap>& map = settings.options.rail_map;
  topology::DecisionOptions options = config::decision_options(settings.options, machine);
  Result<topology::nccl::Release> release = release_of(settings.asked, &findings);
  if (!release) return forward_error(release);
  topology::nccl::Settings nccl = settings.nccl;
  nccl.release = *release;
  topology::PredictedRails decision = topology::predict(
      topology::decide(std::move(machine), std::move(options), std::move(findings)), nccl);
  UserSettings set = settings.set;
  if (!map.has_value()) {
    set.erase(kRailMapVariable);
  } else {
    Result<topology::RailPlan> plan =
        topology::plan_rails(decision.machine, decision.paths, {{}, map});
    if (!plan) set.erase(kRailMapVariable);
  }
  return Inspection{.decision = std::move(decision), .settings = std::move(set)};
}

Result<Inspection> inspect_live(const InspectSettings& settings, Findings findings) {
  LiveMachine live = read_live(settings, &findings);
  auto made = decide(std::move(live.machine), settings, std::move(findings));
  if (!made) return made;
  topology::add_acs_findings(&made->decision);
  made->not_offered = std::move(live.not_offered);
  made->sysfs_root = "/sys";
  decide_unrestricted(live.all, settings.options, &*made);
  return made;
}

// The variables of this process may name files of another machine than the folder's.
Result<Machine> read_folder(const InspectOptions& options, const InspectSettings& settings) {
  const topology::ReadOptions read = config::read_options(settings.options);
  return options.sources.has_value() ? read_gathered_with_file(options.from, read)
                                     : read_gathered(options.from, read.selection);
}

}  // namespace

Result<Inspection> inspect(const InspectOptions& options) {
  Findings findings;
  const InspectSettings settings = read_settings(options, &findings);
  if (options.from == "live") return inspect_live(settings, std::move(findings));
  topology::Selection selection = config::gpu_selection();
  std::error_code unreadable;
  const bool is_folder = std::filesystem::is_directory(options.from, unreadable);
  Result<Machine> machine =
      is_folder ? read_folder(options, settings) : read_file(options.from, selection, options.host);
  if (!machine) return forward_error(machine);
  if (machine->hosts > 1 && !options.host.has_value()) {
    findings.push_back({FindingKind::kSeveralHosts, Severity::kWarning, "",
                        "the file describes " + std::to_string(machine->hosts) +
                            " hosts, and this is the first; the others are not looked at",
                        "judge each host by itself: --host 0, --host 1 and so on"});
  }
  add_list_findings(*machine, settings, &findings);
  const std::filesystem::path sysfs_root =
      is_folder ? std::filesystem::path(options.from) / "sys" : "";
  Machine all = *machine;
  auto removed = remove_unused(sysfs_root, settings, &*machine, &all, &findings);
  auto made = decide(std::move(*machine), settings, std::move(findings));
  if (!made) return made;
  made->not_offered = std::move(removed);
  made->sysfs_root = sysfs_root;
  decide_unrestricted(all, settings.options, &*made);
  return made;
}

SettingSources read_sources() {
  SettingSources sources;
  sources.process = config::process_environment();
  sources.all = config::process_environment_with_nccl_conf(&sources.places);
  return sources;
}

std::optional<UserSetting> find_source(const SettingSources& sources, const std::string& name) {
  const auto variable = sources.all.find(name);
  if (variable == sources.all.end() || variable->second.empty()) return std::nullopt;
  const auto place = sources.places.find(name);
  const bool is_of_file = place != sources.places.end() && !sources.process.contains(name);
  return UserSetting{variable->second, is_of_file ? std::optional(place->second) : std::nullopt};
}

std::string setting_text(const UserSettings& settings, const std::string& name) {
  const auto found = settings.find(name);
  if (found == settings.end()) return name;
  const auto& [value, place] = found->second;
  const std::string text = name + "=" + value;
  return place ? fmt::format("{} in line {} of {}", text, place->line, place->file) : text;
}

}  // namespace gdr::tools::topo
