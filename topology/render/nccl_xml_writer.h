// The machine as a NCCL topology file.
#pragma once

#include <string>

#include "topology/model.h"
#include "topology/rails.h"

namespace gdr::topology {

// PCI nodes of the machine as it is; no <gpu> or <net>, which NCCL fills in itself.
std::string nccl_xml_text_of(const Machine& machine);

// The same machine with each HCA put beside the GPU whose first rail it is, one switch for each
// group, for machines whose tree hides how devices lie (virtual machines) or with a rail map.
Machine grouped_by_rails(const Machine& machine, const RailPlan& plan);

}  // namespace gdr::topology
