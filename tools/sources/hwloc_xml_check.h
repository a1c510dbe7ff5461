#pragma once

#include "base/result.h"
#include "topology/sources/xml_file.h"

namespace gdr::topology {

// Checks what libhwloc assumes of an XML file without checking; hwloc 2.9.0 crashes on files
// without it. Every object needs a known type, and its sets of CPUs and nodes where its type has
// these, and one object has to be a NUMA node; files of hwloc 1, which libhwloc 2 imports, may lack
// NUMA nodes and all sets of them. `topology` is the root element. Fails with
// InvalidArgument; the text names the line.
Status check_hwloc_xml(const XmlFile& xml, const pugi::xml_node& topology);

}  // namespace gdr::topology
