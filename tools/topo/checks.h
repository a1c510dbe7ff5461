// What makes a machine slow, by its topology: devices that differ from their peers, and settings
// that keep NCCL from GPUDirect RDMA on the rails. `nccl-gdr doctor` reports it.
//
// Only what is known is judged: what a source does not state is not a finding.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/finding.h"
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

// Runs all of the checks below. `states` is what the machine's sysfs shows, if there is one.
Findings check_machine(const Inspection& inspection, const PciStates& states);

void check_links(const CheckInput& input, Findings* found);         // PCIe
void check_gpu_links(const CheckInput& input, Findings* found);     // NVLink, C2C
void check_ports(const CheckInput& input, Findings* found);         // state, speed, link layer
void check_rails(const CheckInput& input, Findings* found);         // rails, GPUDirect, NCCL
void check_shares(const CheckInput& input, Findings* found);        // of rails among GPUs
void check_missing_gpus(const CheckInput& input, Findings* found);  // HCAs without a GPU
void check_numa(const CheckInput& input, Findings* found);          // nodes of devices

std::string gpu_name(const Machine& machine, size_t gpu);  // "GPU3 (0000:5d:00.0)"
std::string hca_name(const Machine& machine, size_t hca);  // "mlx5_3 (0000:b1:00.0)"

// Whether the port is down as one that is not in use: the first port of its card is up, and the
// second port of every card of the model is down. Such ports are mostly not cabled.
bool is_unused_second_port(const Machine& machine, PortRef port);

// Returns the positions in RailPlan::rails by HCA; HCAs without a rail are left out.
std::map<int, std::vector<int>> rails_by_hca(const RailPlan& plan);

}  // namespace gdr::tools::topo
