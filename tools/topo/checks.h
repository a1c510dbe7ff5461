// The checks that check_machine() combines. Each adds its faults and notes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/topo/check_report.h"
#include "tools/topo/inspection.h"
#include "tools/topo/labels.h"
#include "tools/topo/pci_state.h"
#include "tools/topo/short_list.h"

namespace gdr::tools::topo {

struct CheckInput {
  const Inspection& inspection;
  const PciStates& states;

  const RailDecision& decision() const { return inspection.decision; }
  const Machine& machine() const { return inspection.decision.machine; }
  // Returns the state of a function; all of it is unknown where sysfs does not show it.
  const PciState& state_of(const std::optional<Bdf>& bdf) const;
};

void check_links(const CheckInput& input, CheckReport* report);         // PCIe
void check_gpu_links(const CheckInput& input, CheckReport* report);     // NVLink, C2C
void check_ports(const CheckInput& input, CheckReport* report);         // state, speed, link layer
void check_rails(const CheckInput& input, CheckReport* report);         // rails, GPUDirect, NCCL
void check_shares(const CheckInput& input, CheckReport* report);        // of rails among GPUs
void check_missing_gpus(const CheckInput& input, CheckReport* report);  // HCAs without a GPU
void check_settings(const CheckInput& input, CheckReport* report);      // NUMA, IOMMU, BAR, ...
void check_diagnostics(const CheckInput& input, CheckReport* report);   // findings of the decision

// Adds the faults of kGdrReach of these GPUs (indexes in Machine::gpus), one for each reason.
void check_reach(const Inspection& inspection, const std::vector<size_t>& gpus,
                 CheckReport* report);

void add_fault(CheckReport* report, FindingKind kind, std::string subject, std::string text,
               std::string fix, Severity severity = Severity::kWarning);

std::string gpu_name(const Machine& machine, size_t gpu);  // "GPU3 (0000:5d:00.0)"
std::string hca_name(const Machine& machine, size_t hca);  // "mlx5_3 (0000:b1:00.0)"

// Whether the port is down as one that is not in use: the first port of its card is up, and the
// second port of every card of the model is down. Such ports are mostly not cabled.
bool is_unused_second_port(const Machine& machine, PortRef port);

// Returns the positions in RailPlan::rails by HCA; HCAs without a rail are left out.
std::map<int, std::vector<int>> rails_by_hca(const RailPlan& plan);

}  // namespace gdr::tools::topo
