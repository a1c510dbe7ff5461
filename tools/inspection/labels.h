// Names, numbers and verdicts as all renderers of this folder show them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/prediction/prediction.h"

namespace gdr::tools::topo {

// The renderers name the model's types on every other line.
using topology::Attachment;
using topology::Bdf;
using topology::ExcludedPort;
using topology::Gpu;
using topology::GpuRails;
using topology::Hca;
using topology::HostBridge;
using topology::Machine;
using topology::NumaNode;
using topology::NvLink;
using topology::Package;
using topology::PathClass;
using topology::PathTable;
using topology::PciLink;
using topology::Port;
using topology::PortRef;
using topology::Rail;
using RailDecision = topology::PredictedRails;
using topology::RailPlan;
using topology::Switch;
using topology::nccl::Verdict;
using topology::nccl::Verdicts;

// Returns the text as UTF-8 without control characters: each of those, and each byte that is not
// part of a well-formed character, becomes U+FFFD. Names come from files that anybody may have
// written.
std::string clean_text(std::string_view text);

// Returns a text in quotation marks, cleaned: one word of a command for a POSIX shell.
std::string shell_word(const std::string& text);

// Returns the names of GPUs by their indexes in Machine::gpus: "GPU3".
std::string gpu_label(size_t gpu);
std::vector<std::string> gpu_labels(const std::vector<size_t>& gpus);

std::string speed_text(int mbps);                // "400 Gb/s"; "unknown" for 0
const char* state_text(Port::State state);       // "active", "down", "unknown"
std::string pci_link_text(const PciLink& link);  // "32 GT/s x16"; "" where it is unknown

// Returns the CPUs of a mask (see topology/cpu_mask.h) as ranges: "0-47,96-143". An empty mask, or
// one that cannot be parsed, gives "N/A".
std::string cpu_list(std::string_view mask);

std::string numa_text(const Machine& machine, const Attachment& at);  // "1"; "N/A" where unknown
std::string address_text(const Hca& hca);  // "0000:3b:00.0"; "N/A" for an HCA without PCI function
// Domain and root bus, "0000:17"; "" for -1.
std::string host_bridge_text(const Machine& machine, int host_bridge);

// Whether the GPU's NVLinks and C2C links are all that it has.
bool gpu_links_known(const Machine& machine, size_t gpu);
// Whether two GPUs may have NVLinks (of AMD: xGMI links) that the source does not state. The class
// of the path between them is then unknown.
bool may_have_unknown_link(const RailDecision& decision, size_t a, size_t b);

// Cells of the matrix, in the words of nvidia-smi: "PIX", "NODE", "X" on the diagonal, "NV18" for
// 18 NVLinks where their number is known, and "?" where may_have_unknown_link().
std::string gpu_gpu_text(const RailDecision& decision, size_t a, size_t b);
std::string gpu_hca_text(const RailDecision& decision, size_t gpu, size_t hca);
std::string hca_hca_text(const RailDecision& decision, size_t a, size_t b);

// Returns the GPUs that a rail (a position in RailPlan::rails) serves, ascending.
std::vector<size_t> gpus_of_rail(const RailPlan& plan, size_t rail);

// Returns the numbers of a GPU's rails, as users see them: "0, 1"; "" for none.
std::string rail_numbers(const RailPlan& plan, size_t gpu);

// Returns the devices that NCCL uses for a GPU, in the order of its channels, and the GPU over
// which it reaches one by PXN: "mlx5_0:1, mlx5_1:1 over GPU4"; "none".
std::string choice_text(const RailDecision& decision, size_t gpu);

// Returns a value of NCCL_NETDEVS_POLICY: "AUTO", "ALL" or "MAX:2".
std::string policy_text(const topology::nccl::NetDevicesPolicy& policy);

// Returns the release and the settings that differ from its defaults: "NCCL 2.30.7,
// NCCL_NET_GDR_LEVEL=PXB".
std::string release_text(const topology::nccl::Settings& settings);

}  // namespace gdr::tools::topo
