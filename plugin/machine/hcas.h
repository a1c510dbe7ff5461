// The HCAs that the verbs library offers, put on the machine's tree.
#pragma once

#include <vector>

#include "plugin/config/options.h"
#include "topology/model.h"
#include "topology/rails.h"
#include "transport/hca.h"

namespace gdr::plugin {

// Replaces the machine's HCAs by those of `ports` (any order, several ports of one HCA) and sorts
// the machine. peermem: nvidia-peermem is there, by which any HCA registers GPU memory.
void put_hcas(topology::Machine* machine, const std::vector<Device>& ports, bool peermem);

// Drops the ports that the filter does not accept, and HCAs that have no other.
void keep_accepted(topology::Machine* machine, const HcaFilter& filter);

// The port of that name and number; PortRef{-1, -1} where the machine has none.
topology::PortRef find_port(const topology::Machine& machine, const std::string& hca, int port);

// The PCI function that stands for all functions of a card where NCCL merges them: device 0,
// function 0 of its bus, as NCCL's own transport has it; the function itself where there is no such
// one.
std::string merged_path(const std::string& sysfs_path);

}  // namespace gdr::plugin
