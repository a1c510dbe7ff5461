// NCCL_IB_HCA as lines for a shell.
#include <fmt/format.h>

#include <map>

#include "tools/topo/env_parts.h"
#include "tools/topo/rdma_devices.h"
#include "tools/topo/shell_lines.h"
#include "tools/topo/short_list.h"

namespace gdr::tools::topo {
namespace {

constexpr size_t kMaxNcclEntries = 32;  // MAX_IF_LIST of NCCL's NCCL_IB_HCA

const char* kind_of_name(const Hca& hca) {
  if (hca.bdf && hca.name == hca.bdf->to_string()) return "PCI addresses";
  return hca.name.find('+') != std::string::npos ? "several merged into one" : "made-up names";
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

}  // namespace

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

std::string nameless_line(const RailDecision& decision, const char* name) {
  const std::vector<std::string> nameless = nameless_rails(decision);
  if (nameless.empty()) return "";
  return comment(
      fmt::format("{} cannot be set: the source has no names of {}. Run this on the "
                  "machine.",
                  name, short_list(nameless)));
}

std::vector<Rail> rdma_rails(const RailDecision& decision) {
  std::vector<Rail> rails = decision.plan.rails;
  std::erase_if(rails,
                [&](const Rail& rail) { return !is_rdma_port(decision.machine, rail.port); });
  return rails;
}

std::string hca_lines(const RailDecision& decision, bool has_list) {
  std::vector<std::string> excluded;
  for (const ExcludedPort& one : decision.plan.excluded) {
    if (!is_rdma_port(decision.machine, one.port)) continue;
    excluded.push_back(port_label(decision.machine, one.port));
  }
  const std::vector<Rail> rails = rdma_rails(decision);
  if (rails.empty() || (excluded.empty() && !has_list)) return "";
  if (std::string nameless = nameless_line(decision, kHcaVariable); !nameless.empty()) {
    return nameless;
  }
  if (rails.size() > kMaxNcclEntries) {
    return comment(fmt::format("NCCL_IB_HCA cannot name {} rails: it takes {} entries.",
                               rails.size(), kMaxNcclEntries));
  }
  const std::string others = excluded.empty() ? "other ports" : short_list(excluded);
  return comment("The rails in their order. This keeps NCCL off " + others +
                 ", also without this plugin.") +
         export_line(kHcaVariable, hca_list(decision));
}

}  // namespace gdr::tools::topo
