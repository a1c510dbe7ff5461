// Words for things of the model that all renderers share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topology/live/rail_decision.h"

namespace gdr::topology {

// The text as UTF-8 without control characters: each of those, and each byte that is no UTF-8,
// becomes U+FFFD. Names come from files that anybody may have written.
std::string clean_text(std::string_view text);

std::string speed_text(int mbps);                // "400 Gb/s", "unknown"
const char* state_text(Port::State state);       // "active", "down", "unknown"
std::string pci_link_text(const PciLink& link);  // "32 GT/s x16"; "" where not known

// A mask of comma groups of 8 hexadecimal digits as "0-47,96-143"; "N/A" for one that is empty or
// cannot be read.
std::string cpu_list(std::string_view mask);

std::string numa_text(const Machine& machine, const Attachment& at);    // "1", "N/A"
std::string address_text(const Hca& hca);                               // "N/A" for none
std::string host_bridge_text(const Machine& machine, int host_bridge);  // "0000:17"; "" for none

// Cells of the matrix. NVLink is "NV18" where the number of links is known.
std::string gpu_gpu_text(const RailDecision& view, size_t a, size_t b);
std::string gpu_hca_text(const RailDecision& view, size_t gpu, size_t hca);
std::string hca_hca_text(const RailDecision& view, size_t a, size_t b);

// GPUs that a rail (position in RailPlan::rails) serves.
std::vector<size_t> gpus_of_rail(const RailPlan& plan, size_t rail);

Verdicts verdicts_of(const RailDecision& view, size_t gpu, size_t hca);

}  // namespace gdr::topology
