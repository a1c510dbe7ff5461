#include "tools/doctor/job_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tools/inspection/rdma_devices.h"
#include "tools/inspection/reach.h"
#include "tools/inspection/restriction.h"
#include "tools/inspection/shell_lines.h"
#include "tools/inspection/text_table.h"
#include "tools/prediction/rail_agreement.h"

namespace gdr::tools::doctor {
namespace {

using topo::comment;
using topo::export_line;
using topo::RailDecision;
using topology::PortRef;
using topology::Rail;

constexpr size_t kMaxNcclEntries = 32;  // MAX_IF_LIST of NCCL's NCCL_IB_HCA

// Takes back what keeps GPUs off their ports.
std::string restriction_lines(const topo::Inspection& inspection) {
  if (!inspection.unrestricted.has_value()) return "";
  const topo::Restriction lost =
      topo::restriction_of(inspection.decision, *inspection.unrestricted);
  std::string lines = comment(topo::short_list(topo::gpu_labels(lost.gpus)) + ": " +
                              topo::restriction_text(inspection) + ".");
  for (const std::string& name : inspection.restricting) {
    lines += topo::take_back(topo::find_setting(inspection.settings, name), name);
  }
  return lines;
}

// The rails that NCCL_IB_HCA can name.
std::vector<Rail> rdma_rails(const RailDecision& decision) {
  std::vector<Rail> rails = decision.plan.rails;
  std::erase_if(rails,
                [&](const Rail& rail) { return !topo::is_rdma_port(decision.machine, rail.port); });
  return rails;
}

// A value of NCCL_IB_HCA, with the numbers of rails where the user gave them others than their
// positions.
std::string list_of_rails(const RailDecision& decision) {
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

std::string hca_lines(const RailDecision& decision) {
  std::vector<std::string> excluded;
  for (const topology::ExcludedPort& one : decision.plan.excluded) {
    if (!topo::is_rdma_port(decision.machine, one.port)) continue;
    excluded.push_back(port_label(decision.machine, one.port));
  }
  const std::vector<Rail> rails = rdma_rails(decision);
  if (rails.empty() || excluded.empty()) return "";
  const bool are_named = std::all_of(rails.begin(), rails.end(), [&](const Rail& rail) {
    return hca_of(decision.machine, rail.port).named;
  });
  if (!are_named) return comment("NCCL_IB_HCA cannot be set: the source has no names of HCAs.");
  if (rails.size() > kMaxNcclEntries) {
    return comment(fmt::format("NCCL_IB_HCA cannot name {} rails: it takes {} entries.",
                               rails.size(), kMaxNcclEntries));
  }
  return comment("The rails in their order. This keeps NCCL off " + topo::short_list(excluded) +
                 ", also without this plugin.") +
         export_line(topo::kHcaVariable, list_of_rails(decision));
}

// The GPUs that only the changed decision brings within reach of their rails: "GPU0, GPU1".
std::string gained_by(const RailDecision& changed, const RailDecision& decision) {
  const std::vector<size_t> left = topo::gpus_out_of_reach(changed);
  std::vector<size_t> gained = topo::gpus_out_of_reach(decision);
  std::erase_if(gained,
                [&](size_t gpu) { return std::find(left.begin(), left.end(), gpu) != left.end(); });
  return topo::short_list(topo::gpu_labels(gained));
}

// NVLink-C2C is a way for GPUDirect RDMA only where NCCL may use it, which is not every release's
// default. Changes `decision` to what the lines make of it, like the functions below.
std::string c2c_lines(RailDecision* decision) {
  RailDecision changed = topo::with_c2c(*decision);
  const std::string gained = gained_by(changed, *decision);
  if (gained.empty()) return "";
  *decision = std::move(changed);
  return comment("Allows GPUDirect RDMA over NVLink-C2C to " + gained + ".") +
         export_line("NCCL_NET_GDR_C2C", "1");
}

// Takes back a level that keeps GPUs from GPUDirect RDMA.
std::string lowered_level_lines(const topo::Inspection& inspection, RailDecision* decision) {
  if (!decision->prediction.settings().gdr_level.has_value()) return "";
  RailDecision changed = topo::with_level(*decision, std::nullopt);
  const std::string gained = gained_by(changed, *decision);
  if (gained.empty() || !topo::gpus_out_of_reach(changed).empty()) return "";
  *decision = std::move(changed);
  return comment(topo::setting_text(inspection.settings, topo::kLevelVariable) + " keeps " +
                 gained + " from GPUDirect RDMA; the default does not.") +
         topo::take_back(topo::find_setting(inspection.settings, topo::kLevelVariable),
                         topo::kLevelVariable);
}

std::string raised_level_lines(RailDecision* decision) {
  using topology::PathClass;
  const std::optional<PathClass> level =
      topo::best_level(*decision, topo::all_gpus(decision->machine),
                       {PathClass::kPix, PathClass::kPxb, PathClass::kPhb});
  if (!level.has_value()) return "";
  RailDecision changed = topo::with_level(*decision, level);
  const std::string gained = gained_by(changed, *decision);
  *decision = std::move(changed);
  return comment("Allows GPUDirect RDMA to GPUs whose rail is just too far away: " + gained + ".") +
         comment("Measure both: across host bridges, some CPUs are slower than host memory is.") +
         export_line(topo::kLevelVariable, topology::to_string(*level));
}

std::string port_labels(const topology::Machine& machine, const std::vector<PortRef>& ports) {
  std::vector<std::string> labels;
  for (PortRef port : ports) labels.push_back(port_label(machine, port));
  return labels.empty() ? "none" : topo::short_list(labels);
}

// The GPUs that NCCL serves worse than the rails would; with a map, which overrides distance, all
// that do not follow it.
std::vector<std::string> badly_served(const RailDecision& decision, bool has_map) {
  std::vector<std::string> gpus;
  for (const topology::Disagreement& one : topology::disagreements(decision)) {
    if ((one.as_good && !has_map) || !topo::has_rdma_rail(decision.machine, one)) continue;
    gpus.push_back(topo::gpu_label(one.gpu) + " " + port_labels(decision.machine, one.chosen) +
                   " instead of " + port_labels(decision.machine, one.rails));
  }
  return gpus;
}

std::string remedy_lines(const RailDecision& decision, bool has_map) {
  const std::vector<std::string> bad = badly_served(decision, has_map);
  if (bad.empty()) return "";
  for (const topology::Remedy& remedy : topology::remedies(decision)) {
    if (!badly_served(remedy.decision, has_map).empty()) continue;
    return comment("NCCL would use " + topo::short_list(bad) + ".") +
           comment("So that it follows the rails, " + remedy.text + ".") +
           (remedy.value.empty() ? "" : export_line(remedy.name.c_str(), remedy.value));
  }
  return "";
}

}  // namespace

std::string job_settings(const topo::Inspection& inspection, bool has_fault) {
  RailDecision decision = inspection.unrestricted.value_or(inspection.decision);
  if (rdma_rails(decision).empty()) return "";
  const auto& restricting = inspection.restricting;
  const bool has_map = topo::find_setting(inspection.settings, topo::kRailMapVariable) != nullptr &&
                       std::find(restricting.begin(), restricting.end(), topo::kRailMapVariable) ==
                           restricting.end();
  std::string lines = restriction_lines(inspection);
  lines += has_fault ? comment(
                           "NCCL_IB_HCA and NCCL_NET_GDR_LEVEL are not proposed before GPUs, "
                           "HCAs and ports are repaired.")
                     : hca_lines(decision);
  lines += c2c_lines(&decision);
  lines += lowered_level_lines(inspection, &decision);
  if (!has_fault) lines += raised_level_lines(&decision);
  return lines + remedy_lines(decision, has_map);
}

}  // namespace gdr::tools::doctor
