#pragma once

#include "base/result.h"
#include "topology/sources/xml_file.h"

namespace gdr::topology {

// What libhwloc takes for granted of a file, and crashes without (2.9.0 does): every object of a
// known type, with its sets of CPUs and nodes where the type has such, and one that is a NUMA node.
Status check_hwloc_xml(const XmlFile& xml, const pugi::xml_node& topology);

}  // namespace gdr::topology
