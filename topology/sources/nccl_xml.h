// A NCCL topology file (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE, or a cloud's own).
#pragma once

#include <string>

#include "base/result.h"
#include "topology/model.h"
#include "topology/sources/selection.h"

namespace gdr::topology {

// GPUs are PCI nodes with a <gpu> or, in a file that has none at all, of a GPU's class; HCAs are
// <net> elements or, in a file that has none at all, PCI nodes of class 02xx, named by their
// addresses. The file's PCI nodes are taken for switches as they stand, as NCCL does.
Result<Machine> nccl_xml(const std::string& file, const Selection& selection = {});
Result<Machine> nccl_xml_text(const std::string& text, const Selection& selection = {});

}  // namespace gdr::topology
