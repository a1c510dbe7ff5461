// The machine as a NCCL topology file.
#pragma once

#include <string>

#include "topology/model.h"

namespace gdr::topology {

// PCI nodes of the machine as it is; no <gpu> or <net>, which NCCL fills in itself.
std::string nccl_xml_text_of(const Machine& machine);

}  // namespace gdr::topology
