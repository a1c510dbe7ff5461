#include "tools/doctor/job_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "tools/inspection/rdma_devices.h"
#include "tools/inspection/shell_lines.h"
#include "tools/inspection/text_table.h"

namespace gdr::tools::doctor {
namespace {

using topo::comment;
using topo::export_line;
using topo::RailDecision;
using topology::Rail;

constexpr size_t kMaxNcclEntries = 32;  // MAX_IF_LIST of NCCL's NCCL_IB_HCA

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

}  // namespace

std::string job_settings(const topo::Inspection& inspection, bool has_fault) {
  const std::string lines = hca_lines(inspection.unrestricted.value_or(inspection.decision));
  if (lines.empty() || !has_fault) return lines;
  return comment("NCCL_IB_HCA is not proposed before GPUs, HCAs and ports are repaired.");
}

}  // namespace gdr::tools::doctor
