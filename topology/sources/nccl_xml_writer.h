// Writes a machine as a NCCL topology file; nccl_xml.h describes the format.
#pragma once

#include <string>

#include "topology/model.h"

namespace gdr::topology {

// Returns the text for NCCL_TOPO_FILE. It has <cpu> and <pci> elements only: NCCL itself adds <gpu>
// and <net> for the devices that its process sees (ncclTopoFillGpu and ncclTopoFillNet in
// src/graph/xml.cc), with their NVLinks. What is unknown is left out, since NCCL asks the system
// only for attributes that are missing. Devices are in the order of the file that the machine was
// read from, else by address. HCAs without a PCI function are left out, since NCCL attaches them
// itself.
std::string nccl_xml_text_of(const Machine& machine);

}  // namespace gdr::topology
