// NCCL_NET_GDR_C2C and NCCL_NET_GDR_LEVEL as lines for a shell.
#include <algorithm>

#include "tools/topo/env_parts.h"
#include "tools/topo/reach.h"
#include "tools/topo/shell_lines.h"
#include "tools/topo/short_list.h"

namespace gdr::tools::topo {
namespace {

std::vector<size_t> without(const std::vector<size_t>& all, const std::vector<size_t>& other) {
  std::vector<size_t> rest = all;
  std::erase_if(
      rest, [&](size_t one) { return std::find(other.begin(), other.end(), one) != other.end(); });
  return rest;
}

std::string names_of(const std::vector<size_t>& gpus) { return short_list(gpu_labels(gpus)); }

// NVLink-C2C is a way for GPUDirect RDMA only where NCCL may use it, which is not every release's
// default. Changes `decision` to what the lines make of it, like the functions below.
std::string c2c_lines(RailDecision* decision) {
  const std::vector<size_t> far = gpus_out_of_reach(*decision);
  RailDecision changed = with_c2c(*decision);
  const std::vector<size_t> gain = without(far, gpus_out_of_reach(changed));
  if (gain.empty()) return "";
  *decision = std::move(changed);
  return comment("Allows GPUDirect RDMA over NVLink-C2C to " + names_of(gain) + ".") +
         export_line("NCCL_NET_GDR_C2C", "1");
}

// Takes back a level that keeps GPUs from GPUDirect RDMA.
std::string unset_level_lines(const Inspection& inspection, RailDecision* decision) {
  if (!decision->prediction.settings().gdr_level.has_value()) return "";
  const std::vector<size_t> far = gpus_out_of_reach(*decision);
  RailDecision changed = with_level(*decision, std::nullopt);
  const std::vector<size_t> gain = without(far, gpus_out_of_reach(changed));
  if (gain.empty() || !gpus_out_of_reach(changed).empty()) return "";
  *decision = std::move(changed);
  return comment(setting_text(inspection.settings, kLevelVariable) + " keeps " + names_of(gain) +
                 " from GPUDirect RDMA; the default does not.") +
         take_back(find_setting(inspection.settings, kLevelVariable), kLevelVariable);
}

// Exports the level that an option gives, unless the default serves more GPUs: then it is left out.
std::string level_option_lines(const Inspection& inspection, RailDecision* decision) {
  RailDecision changed = with_level(*decision, std::nullopt);
  const std::vector<size_t> gain =
      without(gpus_out_of_reach(*decision), gpus_out_of_reach(changed));
  if (gain.empty()) {
    return comment("As given by --gdr-level.") +
           export_line(kLevelVariable,
                       topology::to_string(*decision->prediction.settings().gdr_level));
  }
  *decision = std::move(changed);
  const UserSetting& setting = *find_setting(inspection.settings, kLevelVariable);
  const bool is_set = setting.also_in_environment || !setting.file.empty();
  return comment(setting_text(inspection.settings, kLevelVariable) + " keeps " + names_of(gain) +
                 " from GPUDirect RDMA; the default does not. Leave it out.") +
         (is_set ? take_back(&setting, kLevelVariable) : "");
}

std::string raised_level_lines(RailDecision* decision) {
  const std::vector<size_t> far = gpus_out_of_reach(*decision);
  const std::optional<PathClass> level = best_level(
      *decision, all_gpus(decision->machine), {PathClass::kPix, PathClass::kPxb, PathClass::kPhb});
  if (level.has_value()) *decision = with_level(*decision, level);
  const std::vector<size_t> left = gpus_out_of_reach(*decision);
  const std::vector<size_t> gain = without(far, left);
  std::string lines;
  if (!gain.empty()) {
    lines =
        comment("Allows GPUDirect RDMA to GPUs whose rail is just too far away: " + names_of(gain) +
                ".") +
        comment("Measure both: across host bridges, some CPUs are slower than host memory is.") +
        export_line(kLevelVariable,
                    topology::to_string(*decision->prediction.settings().gdr_level));
  }
  if (!left.empty()) {
    lines += comment("No setting is advised for " + names_of(left) +
                     ": the rail is on another NUMA node, and GPUDirect RDMA across them is slow.");
  }
  return lines;
}

}  // namespace

std::string level_lines(const Inspection& inspection, RailDecision* decision) {
  std::string lines;
  if (is_option(find_setting(inspection.settings, kLevelVariable)) &&
      decision->prediction.settings().gdr_level.has_value()) {
    lines = level_option_lines(inspection, decision);
    if (decision->prediction.settings().gdr_level.has_value()) return lines;
  }
  lines += c2c_lines(decision);
  lines += unset_level_lines(inspection, decision);
  if (!gpus_out_of_reach(*decision).empty()) lines += raised_level_lines(decision);
  return lines;
}

}  // namespace gdr::tools::topo
