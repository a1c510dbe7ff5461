// What the topology of a machine shows by itself, in a file, too: devices that differ from their
// peers, and settings that keep NCCL from GPUDirect RDMA on the rails.
//
// Only what is known is judged: what a source does not state is not a finding.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/doctor/facts/host.h"
#include "tools/inspection/labels.h"
#include "tools/inspection/text_table.h"

namespace gdr::tools::doctor {

// The judges name the model's types on every other line.
using topo::Attachment;
using topo::Bdf;
using topo::Gpu;
using topo::gpu_label;
using topo::gpu_labels;
using topo::Hca;
using topo::Machine;
using topo::NvLink;
using topo::PathClass;
using topo::PciLink;
using topo::Port;
using topo::PortRef;
using topo::Rail;
using topo::RailDecision;
using topo::short_list;

// Of a host with an inspection.
const RailDecision& decision_of(const Host& host);
const Machine& machine_of(const Host& host);

// The judges that judge_topology() runs. Each adds findings of the kinds of its check; the host has
// an inspection.
void judge_pcie_links(const Host& host, Findings* found);
void judge_nvlinks(const Host& host, Findings* found);
void judge_port_states(const Host& host, Findings* found);
void judge_port_speeds(const Host& host, Findings* found);
void judge_link_layers(const Host& host, Findings* found);
void judge_registration(const Host& host, Findings* found);
void judge_rails(const Host& host, Findings* found);
void judge_rail_shares(const Host& host, Findings* found);
void judge_reach(const Host& host, Findings* found);
void judge_nccl_choices(const Host& host, Findings* found);  // after all that may be their cause
void judge_missing_gpus(const Host& host, Findings* found);
void judge_numa_nodes(const Host& host, Findings* found);

// Whether an HCA of NVIDIA has no RDMA device, though others of its model have one, or none can be
// used, or it has no driver beside GPUs.
bool has_lost_hca(const Host& host);

// Whether GPUs, HCAs, ports or links are missing, elsewhere, down or slow by what was found.
// Settings for what is left of the machine would stay when it is repaired, so that none are
// advised.
bool lacks_devices(const Host& host, const Findings& found);

// Whether NCCL's topology file alone has the machine's GPUs, and /sys none of them. NCCL drops such
// GPUs: the file may be of another machine.
bool has_absent_gpus(const Host& host);

// Whether the decision has the finding from NCCL's topology file, which nccl_variables.cc judges.
bool is_of_nccl_file(const Finding& finding);

// Returns the state of a function; all of it is unknown where sysfs does not show it.
topo::PciState state_of(const Host& host, const std::optional<Bdf>& bdf);

// The size of the GPU's BAR1; 0: unknown. sysfs shows every BAR; NVML its BAR1, which is used where
// sysfs is not mounted.
uint64_t bar1_bytes_of(const Host& host, const Gpu& gpu);

std::string gpu_name(const Machine& machine, size_t gpu);  // "GPU3 (0000:5d:00.0)"
std::string hca_name(const Machine& machine, size_t hca);  // "mlx5_3 (0000:b1:00.0)"

// Whether the port is down as one that is not in use: the first port of its card is up, and the
// second port of every card of the model is down. Such ports are mostly not cabled.
bool is_unused_second_port(const Machine& machine, PortRef port);

// Whether the device is on no node, or on one whose number the source does not state.
bool has_unknown_node(const Machine& machine, const Attachment& at);

// Returns the positions in RailPlan::rails by HCA; HCAs without a rail are left out.
std::map<int, std::vector<int>> rails_by_hca(const topology::RailPlan& plan);

}  // namespace gdr::tools::doctor
