// The HCAs that the verbs library offers, put on the machine's tree.
#pragma once

#include <vector>

#include "plugin/config/options.h"
#include "topology/model.h"
#include "topology/rails.h"
#include "transport/device/hca.h"

namespace gdr::plugin {

// The ways to GPU memory that the user leaves open.
transport::RegistrationPaths allowed_paths(const config::Options& options);

// How NCCL may hand GPU memory to an HCA.
struct GdrSupport {
  bool dmabuf = false;
  bool address = false;  // by nvidia-peermem, or because the user wants everything staged

  bool any() const { return dmabuf || address; }
};
GdrSupport gdr_support(const transport::HcaContext& hca,
                       const transport::RegistrationPaths& allowed);

// Replaces the machine's HCAs by those of `ports` (any order, several ports of one HCA) and sorts
// the machine. `allowed` is without dmabuf where the GPUs' driver does not export their memory.
void replace_hcas(topology::Machine* machine, const std::vector<transport::Device>& ports,
                  const transport::RegistrationPaths& allowed);

// Drops the ports that the filter does not accept, and HCAs that have no other.
void keep_accepted(topology::Machine* machine, const transport::HcaFilter& filter);

// The port of that name and number; PortRef{-1, -1} where the machine has none.
topology::PortRef find_port(const topology::Machine& machine, const std::string& hca, int port);

// The PCI function that stands for all those of a card where NCCL merges them: function 0 and, with
// merge_functions (NCCL_IB_MERGE_VFS), device 0 of its bus; the function itself where that is no
// network function of the same vendor.
std::string merged_path(const std::string& sysfs_path, bool merge_functions);

}  // namespace gdr::plugin
