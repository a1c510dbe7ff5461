#include "tools/topo/env_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/topo/check.h"
#include "tools/topo/nccl_choice.h"
#include "tools/topo/rdma_devices.h"
#include "tools/topo/restriction.h"
#include "tools/topo/short_list.h"
#include "topology/live/rail_agreement.h"

namespace gdr::tools::topo {
namespace {

constexpr char kHcas[] = "NCCL_IB_HCA";
constexpr char kLevel[] = "NCCL_NET_GDR_LEVEL";
constexpr char kRailMap[] = "GDR_NCCL_RAIL_MAP";
constexpr char kGenerate[] = "GDR_NCCL_GENERATE_TOPO_FILE";
constexpr size_t kMaxNcclEntries = 32;  // MAX_IF_LIST of NCCL's NCCL_IB_HCA

std::string quoted_for_shell(const std::string& text) {
  std::string quoted = "'";
  for (char c : clean_text(text)) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// Lines of comments are cleaned, because names from files could start lines of their own.
std::string comment(const std::string& text) { return "# " + clean_text(text) + "\n"; }

std::string export_line(const char* name, const std::string& value) {
  return std::string("export ") + name + "=" + quoted_for_shell(value) + "\n";
}

const UserSetting* setting_of(const Inspection& inspection, const char* name) {
  const auto found = inspection.settings.find(name);
  return found == inspection.settings.end() ? nullptr : &found->second;
}

bool is_restricting(const Inspection& inspection, const char* name) {
  const auto& names = inspection.restricting;
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_option(const UserSetting* setting) {
  return setting != nullptr && setting->from == UserSetting::From::kOption;
}

// NCCL takes a variable from its file only where the environment does not have it (setenv in its
// src/os/linux.cc), and one that is empty for unset.
std::string take_back(const UserSetting* setting, const std::string& name) {
  if (setting == nullptr || setting->file.empty()) return "unset " + name + "\n";
  return comment(fmt::format("Line {} of {} sets {}: remove it there. Until then, an empty value "
                             "in the environment overrides it.",
                             setting->line, setting->file, name)) +
         export_line(name.c_str(), "");
}

// Takes back what is set and cannot be used.
std::string unusable_lines(const Inspection& inspection) {
  std::string lines;
  for (const auto& [name, setting] : inspection.unusable) {
    lines += comment(setting_text(inspection.unusable, name) +
                     " cannot be used: the warning says why. The default counts.") +
             take_back(&setting, name);
  }
  return lines;
}

// Returns the HCAs of rails that the source has no name of.
std::vector<std::string> nameless_rails(const RailDecision& decision) {
  std::vector<std::string> names;
  for (const Rail& rail : decision.plan.rails) {
    const Hca& hca = hca_of(decision.machine, rail.port);
    if (!hca.named && is_rdma_device(decision.machine, hca)) names.push_back(hca.name);
  }
  return names;
}

// Says that a variable cannot be set; "" where all rails have names.
std::string nameless_line(const RailDecision& decision, const char* name) {
  const std::vector<std::string> nameless = nameless_rails(decision);
  if (nameless.empty()) return "";
  return comment(
      fmt::format("{} cannot be set: the source has no names of {}. Run this on the "
                  "machine.",
                  name, short_list(nameless)));
}

// Takes back what keeps GPUs off their ports.
std::string unset_lines(const Inspection& inspection) {
  const Restriction lost = restriction_of(inspection.decision, *inspection.unrestricted);
  std::vector<std::string> gpus;
  for (size_t gpu : lost.gpus) gpus.push_back("GPU" + std::to_string(gpu));
  std::string lines = comment(inspection.restricted_by + ": this gives " + short_list(gpus) +
                              " rails that are farther away, or shared by more GPUs, than those" +
                              " of the machine.");
  if (!lost.ports.empty()) lines += comment("Left out: " + short_list(lost.ports) + ".");
  for (const std::string& name : inspection.restricting) {
    lines += take_back(setting_of(inspection, name.c_str()), name);
  }
  return lines + comment("What follows is for the machine without it.");
}

// The rails that NCCL_IB_HCA can name.
std::vector<Rail> rdma_rails(const RailDecision& decision) {
  std::vector<Rail> rails = decision.plan.rails;
  std::erase_if(rails,
                [&](const Rail& rail) { return !is_rdma_port(decision.machine, rail.port); });
  return rails;
}

// Returns a list for NCCL_IB_HCA, with the numbers of rails where the user gave them others than
// their positions.
std::string hca_list(const RailDecision& decision) {
  const std::vector<Rail>& all = decision.plan.rails;
  bool in_order = true;
  for (size_t i = 0; i < all.size(); ++i) in_order = in_order && all[i].id == static_cast<int>(i);
  std::string list;
  for (const Rail& rail : rdma_rails(decision)) {
    list += (list.empty() ? "=" : ",") + port_label(decision.machine, rail.port);
    if (!in_order) list += ":" + std::to_string(rail.id);
  }
  return list;
}

// `has_list`: the user's list is to be repeated.
std::string hca_lines(const RailDecision& decision, bool has_list) {
  std::vector<std::string> excluded;
  for (const ExcludedPort& one : decision.plan.excluded) {
    if (!is_rdma_port(decision.machine, one.port)) continue;
    excluded.push_back(port_label(decision.machine, one.port));
  }
  const std::vector<Rail> rails = rdma_rails(decision);
  if (rails.empty() || (excluded.empty() && !has_list)) return "";
  if (std::string nameless = nameless_line(decision, kHcas); !nameless.empty()) return nameless;
  if (rails.size() > kMaxNcclEntries) {
    return comment(fmt::format("NCCL_IB_HCA cannot name {} rails: it takes {} entries.",
                               rails.size(), kMaxNcclEntries));
  }
  const std::string others = excluded.empty() ? "other ports" : short_list(excluded);
  return comment("The rails in their order. This keeps NCCL off " + others +
                 ", also without this plugin.") +
         export_line(kHcas, hca_list(decision));
}

RailDecision with_settings(const RailDecision& decision, const topology::nccl::Settings& settings) {
  RailDecision changed = decision;
  changed.prediction = topology::predict(changed.machine, changed.plan, settings);
  return changed;
}

RailDecision with_level(const RailDecision& decision, std::optional<PathClass> level) {
  topology::nccl::Settings settings = decision.prediction.settings();
  settings.gdr_level = level;
  return with_settings(decision, settings);
}

// Returns the GPUs whose own rail is beyond the level.
std::vector<std::string> gpus_out_of_reach(const RailDecision& decision) {
  std::vector<std::string> gpus;
  for (size_t gpu = 0; gpu < decision.machine.gpus.size(); ++gpu) {
    if (out_of_reach(decision, gpu)) gpus.push_back("GPU" + std::to_string(gpu));
  }
  return gpus;
}

std::vector<std::string> without(const std::vector<std::string>& all,
                                 const std::vector<std::string>& other) {
  std::vector<std::string> rest = all;
  std::erase_if(rest, [&](const std::string& one) {
    return std::find(other.begin(), other.end(), one) != other.end();
  });
  return rest;
}

// NVLink-C2C is a way for GPUDirect RDMA only where NCCL may use it, which is not every release's
// default. Changes `decision` to what the lines make of it, like the functions below.
std::string c2c_lines(RailDecision* decision) {
  topology::nccl::Settings settings = decision->prediction.settings();
  const std::vector<std::string> far = gpus_out_of_reach(*decision);
  settings.gdr_c2c = true;
  RailDecision changed = with_settings(*decision, settings);
  const std::vector<std::string> gain = without(far, gpus_out_of_reach(changed));
  if (gain.empty()) return "";
  *decision = std::move(changed);
  return comment("Allows GPUDirect RDMA over NVLink-C2C to " + short_list(gain) + ".") +
         export_line("NCCL_NET_GDR_C2C", "1");
}

// Takes back a level that keeps GPUs from GPUDirect RDMA.
std::string unset_level_lines(const Inspection& inspection, RailDecision* decision) {
  if (!decision->prediction.settings().gdr_level.has_value()) return "";
  const std::vector<std::string> far = gpus_out_of_reach(*decision);
  RailDecision changed = with_level(*decision, std::nullopt);
  const std::vector<std::string> gain = without(far, gpus_out_of_reach(changed));
  if (gain.empty() || !gpus_out_of_reach(changed).empty()) return "";
  *decision = std::move(changed);
  return comment(setting_text(inspection.settings, kLevel) + " keeps " + short_list(gain) +
                 " from GPUDirect RDMA; the default does not.") +
         take_back(setting_of(inspection, kLevel), kLevel);
}

// Exports the level that an option gives, unless the default serves more GPUs: then it is left out.
std::string level_option_lines(const Inspection& inspection, RailDecision* decision) {
  RailDecision changed = with_level(*decision, std::nullopt);
  const std::vector<std::string> gain =
      without(gpus_out_of_reach(*decision), gpus_out_of_reach(changed));
  if (gain.empty()) {
    return comment("As given by --gdr-level.") +
           export_line(kLevel, topology::to_string(*decision->prediction.settings().gdr_level));
  }
  *decision = std::move(changed);
  const UserSetting& setting = *setting_of(inspection, kLevel);
  const bool is_set = setting.also_in_environment || !setting.file.empty();
  return comment(setting_text(inspection.settings, kLevel) + " keeps " + short_list(gain) +
                 " from GPUDirect RDMA; the default does not. Leave it out.") +
         (is_set ? take_back(&setting, kLevel) : "");
}

std::string raised_level_lines(RailDecision* decision) {
  const std::vector<std::string> far = gpus_out_of_reach(*decision);
  std::vector<std::string> left = far;
  RailDecision best = *decision;
  for (PathClass level : {PathClass::kPix, PathClass::kPxb, PathClass::kPhb}) {
    RailDecision changed = with_level(*decision, level);
    const std::vector<std::string> remaining = gpus_out_of_reach(changed);
    if (remaining.size() >= left.size()) continue;
    left = remaining;
    best = std::move(changed);
  }
  std::string lines;
  const std::vector<std::string> gain = without(far, left);
  if (!gain.empty()) {
    *decision = std::move(best);
    lines =
        comment("Allows GPUDirect RDMA to GPUs whose rail is just too far away: " +
                short_list(gain) + ".") +
        comment("Measure both: across host bridges, some CPUs are slower than host memory is.") +
        export_line(kLevel, topology::to_string(*decision->prediction.settings().gdr_level));
  }
  if (!left.empty()) {
    lines += comment("No setting is advised for " + short_list(left) +
                     ": the rail is on another NUMA node, and GPUDirect RDMA across them is slow.");
  }
  return lines;
}

std::string level_lines(const Inspection& inspection, RailDecision* decision) {
  std::string lines;
  if (is_option(setting_of(inspection, kLevel)) &&
      decision->prediction.settings().gdr_level.has_value()) {
    lines = level_option_lines(inspection, decision);
    if (decision->prediction.settings().gdr_level.has_value()) return lines;
  }
  lines += c2c_lines(decision);
  lines += unset_level_lines(inspection, decision);
  if (!gpus_out_of_reach(*decision).empty()) lines += raised_level_lines(decision);
  return lines;
}

std::string joined(const Machine& machine, const std::vector<PortRef>& ports) {
  std::vector<std::string> labels;
  for (PortRef port : ports) labels.push_back(port_label(machine, port));
  return labels.empty() ? "none" : short_list(labels);
}

// Returns the GPUs that NCCL serves worse than the rails would; with a map, which overrides
// distance, all that do not follow it.
std::vector<std::string> badly_served(const RailDecision& decision, bool has_map) {
  std::vector<std::string> gpus;
  for (const topology::Disagreement& one : topology::disagreements(decision)) {
    if ((one.as_good && !has_map) || !has_rdma_rail(decision.machine, one)) continue;
    gpus.push_back("GPU" + std::to_string(one.gpu) + " " + joined(decision.machine, one.chosen) +
                   " instead of " + joined(decision.machine, one.rails));
  }
  return gpus;
}

std::string remedy_lines(bool has_map, RailDecision* decision) {
  const std::vector<std::string> bad = badly_served(*decision, has_map);
  if (bad.empty()) return "";
  const std::string why = comment("NCCL would use " + short_list(bad) + ".");
  for (const topology::Remedy& remedy : topology::remedies(*decision)) {
    if (!badly_served(remedy.decision, has_map).empty()) continue;
    *decision = remedy.decision;
    if (remedy.name != kGenerate) {
      return why + comment("With this it follows the rails, or serves GPUs as well.") +
             export_line(remedy.name.c_str(), remedy.value);
    }
    return why +
           comment(
               "With a generated topology file it follows the rails. Unset NCCL_TOPO_FILE for "
               "that.") +
           export_line(kGenerate, "1") +
           comment("The same without this plugin, once on each kind of node:") +
           comment("  nccl-gdr topo --nccl-xml --grouped > FILE; export NCCL_TOPO_FILE=FILE");
  }
  return why + comment("No setting makes NCCL follow all rails.");
}

// Returns the network interfaces that the map gives to GPUs by their names.
std::vector<std::string> interfaces_in_map(const RailDecision& decision, const std::string& map) {
  std::vector<std::string> interfaces;
  for (const Rail& rail : decision.plan.rails) {
    const std::string& name = hca_of(decision.machine, rail.port).name;
    if (!is_rdma_port(decision.machine, rail.port) && map.find(name) != std::string::npos) {
      interfaces.push_back(name);
    }
  }
  return interfaces;
}

std::string map_lines(const Inspection& inspection, const UserSetting& map) {
  const auto interfaces = interfaces_in_map(inspection.decision, map.value);
  if (!interfaces.empty()) {
    return comment(std::string(kRailMap) + " cannot be set: " + short_list(interfaces) +
                   " is no RDMA device, and NCCL uses it by sockets.");
  }
  if (std::string nameless = nameless_line(inspection.decision, kRailMap); !nameless.empty()) {
    return nameless;
  }
  return comment("As given by " + origin_text(inspection.settings, kRailMap) + ".") +
         export_line(kRailMap, map.value);
}

const char* kind_of_name(const Hca& hca) {
  if (hca.bdf && hca.name == hca.bdf->to_string()) return "PCI addresses";
  return hca.name.find('+') != std::string::npos ? "several merged into one" : "made-up names";
}

// NCCL_IB_HCA and rail maps name HCAs as verbs does.
Status check_names(const Machine& machine) {
  std::map<std::string, std::vector<std::string>> names_by_kind;
  for (const Hca& hca : machine.hcas) {
    if (hca.named) return {};
    names_by_kind[kind_of_name(hca)].push_back(hca.name);
  }
  if (names_by_kind.empty()) return {};
  std::string shown;
  for (const auto& [kind, names] : names_by_kind) {
    shown += (shown.empty() ? "" : "; ") + kind + ": " + clean_text(short_list(names));
  }
  return fail(Code::kInvalidUsage,
              fmt::format("--env: {} does not have the names of HCAs, by which NCCL_IB_HCA chooses "
                          "them ({}). Fix: run this on the machine, or give --from a file with "
                          "names: of lstopo, of NCCL (NCCL_TOPO_DUMP_FILE), or the text of "
                          "nvidia-smi with its NIC legend",
                          clean_text(machine.source), shown));
}

// Says what is left to do after `lines`, which make the machine what `advised` is; "" where they
// say all.
std::string closing_line(const Inspection& advised, const std::string& lines) {
  const size_t faults = check_machine(advised).faults.size();
  if (faults > 0) {
    return comment(
        fmt::format("`nccl-gdr topo --check` finds {} fault{} that no advised setting "
                    "fixes: run it.",
                    faults, faults == 1 ? "" : "s"));
  }
  if (!lines.empty()) return "";
  const topology::nccl::Settings& settings = advised.decision.prediction.settings();
  const std::string nccl = "NCCL " + settings.release.to_string();
  const std::string in_force = release_text(settings);
  if (in_force != nccl) {
    return comment("Nothing has to be changed: " + in_force + " is right for this machine.");
  }
  return comment("Nothing has to be set: the defaults of " + nccl + " are right for this machine.");
}

// Whether the finding is about a setting that is taken back: its value, an entry of a list, or a
// map that does not fit.
bool is_about_taken_back(const Inspection& inspection, const Finding& finding) {
  const UserSettings& unusable = inspection.unusable;
  const auto& names = inspection.restricting;
  return std::any_of(
             unusable.begin(), unusable.end(),
             [&](const auto& setting) {
               return finding.subject == setting.first ||
                      (finding.subject.empty() && finding.text.starts_with(setting.first + " "));
             }) ||
         std::any_of(names.begin(), names.end(), [&](const std::string& name) {
           return finding.subject == setting_text(inspection.settings, name);
         });
}

// Returns the machine without the settings that are taken back before the others are judged.
Inspection without_bad_settings(const Inspection& inspection) {
  Inspection advised = inspection;
  Findings findings = inspection.decision.findings;
  if (inspection.unrestricted.has_value()) advised.decision = *inspection.unrestricted;
  std::erase_if(findings,
                [&](const Finding& finding) { return is_about_taken_back(inspection, finding); });
  advised.decision.findings = std::move(findings);
  advised.unrestricted.reset();
  for (const std::string& name : inspection.restricting) advised.settings.erase(name);
  return advised;
}

}  // namespace

Result<std::string> env_lines(const Inspection& inspection) {
  Inspection advised = without_bad_settings(inspection);
  RailDecision& decision = advised.decision;
  if (Status usable = check_names(decision.machine); !usable) return forward_error(usable);
  std::string lines = unusable_lines(inspection);
  if (decision.plan.rails.empty()) {
    lines += comment("The machine has no rail, so that no setting helps.");
    return lines + closing_line(advised, lines);
  }
  if (inspection.unrestricted.has_value()) lines += unset_lines(inspection);
  const UserSetting* map = setting_of(advised, kRailMap);
  if (rdma_rails(decision).empty()) {
    if (map != nullptr) lines += map_lines(inspection, *map);
    lines += comment("No rail is an RDMA device, so that no setting helps.");
    return lines + closing_line(advised, lines);
  }
  const bool has_list = !inspection.not_offered.empty() || is_option(setting_of(inspection, kHcas));
  lines += hca_lines(decision, !is_restricting(inspection, kHcas) && has_list);
  lines += level_lines(inspection, &decision);
  if (map != nullptr) lines += map_lines(inspection, *map);
  lines += remedy_lines(map != nullptr, &decision);
  return lines + closing_line(advised, lines);
}

}  // namespace gdr::tools::topo
