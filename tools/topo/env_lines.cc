#include "tools/topo/env_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/topo/check.h"
#include "tools/topo/checks.h"
#include "tools/topo/nccl_choice.h"
#include "tools/topo/restriction.h"
#include "topology/live/rail_agreement.h"

namespace gdr::tools::topo {
namespace {

constexpr char kNoSetting[] = "No setting";  // begins the comments on what settings cannot change
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

// Takes back what keeps GPUs off their ports.
std::string unset_lines(const Inspection& inspection, const InspectOptions& options) {
  const Restriction lost = restriction_of(inspection.decision, *inspection.unrestricted);
  std::vector<std::string> gpus;
  for (size_t gpu : lost.gpus) gpus.push_back("GPU" + std::to_string(gpu));
  std::string lines = comment("NCCL_IB_HCA or the rail map gives " + short_list(gpus) +
                              " rails that are farther away, or shared by more GPUs, than those" +
                              " of the machine.");
  if (!lost.ports.empty()) lines += comment("Left out: " + short_list(lost.ports) + ".");
  if (!inspection.not_offered.empty()) lines += "unset NCCL_IB_HCA\n";
  const bool has_map = options.rail_map.has_value() && !options.rail_map->empty();
  if (has_map || inspection.not_offered.empty()) lines += "unset GDR_NCCL_RAIL_MAP\n";
  return lines + comment("What follows is for the machine without them.");
}

std::string hca_lines(const RailDecision& decision, const std::vector<std::string>& not_offered,
                      const InspectOptions& options) {
  const RailPlan& plan = decision.plan;
  const bool has_others = !plan.excluded.empty() || !not_offered.empty();
  if (plan.rails.empty() || (!has_others && !options.hca.has_value())) return "";
  if (plan.rails.size() > kMaxNcclEntries) {
    return comment(fmt::format("NCCL_IB_HCA cannot name {} rails: it takes {} entries.",
                               plan.rails.size(), kMaxNcclEntries));
  }
  std::string list = "=";
  bool in_order = true;
  for (size_t i = 0; i < plan.rails.size(); ++i) {
    in_order = in_order && plan.rails[i].id == static_cast<int>(i);
  }
  for (size_t i = 0; i < plan.rails.size(); ++i) {
    list += (i == 0 ? "" : ",") + port_label(decision.machine, plan.rails[i].port);
    if (!in_order) list += ":" + std::to_string(plan.rails[i].id);
  }
  std::vector<std::string> excluded;
  for (const ExcludedPort& one : plan.excluded) {
    excluded.push_back(port_label(decision.machine, one.port));
  }
  const std::string others = excluded.empty() ? "other ports" : short_list(excluded);
  return comment("The rails in their order. This keeps NCCL off " + others +
                 ", also without this plugin.") +
         export_line("NCCL_IB_HCA", list);
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
std::string unset_level_lines(RailDecision* decision) {
  if (!decision->prediction.settings().gdr_level.has_value()) return "";
  const std::vector<std::string> far = gpus_out_of_reach(*decision);
  RailDecision changed = with_level(*decision, std::nullopt);
  const std::vector<std::string> gain = without(far, gpus_out_of_reach(changed));
  if (gain.empty() || !gpus_out_of_reach(changed).empty()) return "";
  *decision = std::move(changed);
  return comment("This level keeps " + short_list(gain) +
                 " from GPUDirect RDMA; the default does not.") +
         "unset NCCL_NET_GDR_LEVEL\n";
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
        export_line("NCCL_NET_GDR_LEVEL",
                    topology::to_string(*decision->prediction.settings().gdr_level));
  }
  if (!left.empty()) {
    lines += comment(std::string(kNoSetting) + " is advised for " + short_list(left) +
                     ": the rail is on another NUMA node, and GPUDirect RDMA across them is slow.");
  }
  return lines;
}

std::string level_lines(RailDecision* decision, const InspectOptions& options) {
  const std::optional<PathClass> set = decision->prediction.settings().gdr_level;
  if (options.gdr_level.has_value() && set.has_value()) {
    return comment("As given by --gdr-level.") +
           export_line("NCCL_NET_GDR_LEVEL", topology::to_string(*set));
  }
  std::string lines = c2c_lines(decision);
  lines += unset_level_lines(decision);
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
    if (one.as_good && !has_map) continue;
    gpus.push_back("GPU" + std::to_string(one.gpu) + " " + joined(decision.machine, one.chosen) +
                   " instead of " + joined(decision.machine, one.rails));
  }
  return gpus;
}

std::string remedy_lines(const RailDecision& decision, bool has_map) {
  const std::vector<std::string> bad = badly_served(decision, has_map);
  if (bad.empty()) return "";
  const std::string why = comment("NCCL would use " + short_list(bad) + ".");
  for (const topology::Remedy& remedy : topology::remedies(decision)) {
    if (!badly_served(remedy.decision, has_map).empty()) continue;
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
  return why + comment(std::string(kNoSetting) + " makes NCCL follow all rails.");
}

// Says what is left to do after `lines`; "" where they say all.
std::string closing_line(const Inspection& inspection, const std::string& lines) {
  const bool has_fault = !check_machine(inspection, {}).faults.empty();
  if (lines.find(kNoSetting) != std::string::npos) {
    if (!has_fault) return "";
    return comment("First look for the fault: `nccl-gdr topo --check` names what it finds.");
  }
  if (lines.find("export ") != std::string::npos || lines.find("unset ") != std::string::npos) {
    return "";
  }
  const std::string nccl = "NCCL " + inspection.decision.prediction.settings().release.to_string();
  if (has_fault) {
    return comment("Nothing has to be set for " + nccl +
                   ": what `nccl-gdr topo --check` finds wrong here is no matter of settings.");
  }
  return comment("Nothing has to be set: the defaults of " + nccl + " are right for this machine.");
}

}  // namespace

std::string env_lines(const Inspection& inspection, const InspectOptions& options) {
  const bool restricted = inspection.unrestricted.has_value();
  RailDecision decision = restricted ? *inspection.unrestricted : inspection.decision;
  if (decision.plan.rails.empty()) {
    return comment("The machine has no rail, so that no setting helps.");
  }
  std::string lines = restricted ? unset_lines(inspection, options) : "";
  lines += restricted ? hca_lines(decision, {}, {})
                      : hca_lines(decision, inspection.not_offered, options);
  lines += level_lines(&decision, options);
  const bool has_map = !restricted && options.rail_map.has_value() && !options.rail_map->empty();
  if (has_map) {
    lines +=
        comment("As given by --rail-map.") + export_line("GDR_NCCL_RAIL_MAP", *options.rail_map);
  }
  lines += remedy_lines(decision, has_map);
  return lines + closing_line(inspection, lines);
}

}  // namespace gdr::tools::topo
