// libhwloc, loaded at run time since the plugin has to load on hosts without it. HwlocLibrary holds
// its functions, typed by hwloc's own headers. Inline functions of those headers are used only
// where they call no other function of the library.
#pragma once

#include <hwloc.h>
#include <hwloc/distances.h>

#include <memory>

#include "base/result.h"

namespace gdr::topology {

struct HwlocLibrary {
  decltype(&hwloc_get_api_version) get_api_version = nullptr;
  decltype(&hwloc_topology_init) topology_init = nullptr;
  decltype(&hwloc_topology_destroy) topology_destroy = nullptr;
  decltype(&hwloc_topology_load) topology_load = nullptr;
  decltype(&hwloc_topology_set_flags) topology_set_flags = nullptr;
  decltype(&hwloc_topology_set_components) topology_set_components = nullptr;
  decltype(&hwloc_topology_set_io_types_filter) topology_set_io_types_filter = nullptr;
  decltype(&hwloc_topology_set_xmlbuffer) topology_set_xmlbuffer = nullptr;
  decltype(&hwloc_get_obj_by_depth) get_obj_by_depth = nullptr;
  decltype(&hwloc_bitmap_first) bitmap_first = nullptr;
  decltype(&hwloc_bitmap_last) bitmap_last = nullptr;
  decltype(&hwloc_bitmap_isset) bitmap_isset = nullptr;
  decltype(&hwloc_distances_get_by_name) distances_get_by_name = nullptr;
  decltype(&hwloc_distances_get_by_type) distances_get_by_type = nullptr;
  decltype(&hwloc_distances_release) distances_release = nullptr;

  // Loads libhwloc.so.15 (hwloc 2.3 or later) once per process and never unloads it. Fails with
  // Unsupported, with the reason and the package to install.
  static Result<const HwlocLibrary*> load();
};

struct HwlocTopologyDeleter {
  const HwlocLibrary* library = nullptr;
  void operator()(hwloc_topology* topology) const { library->topology_destroy(topology); }
};
using HwlocTopology = std::unique_ptr<hwloc_topology, HwlocTopologyDeleter>;

// Loads the topology of this machine with all objects, also those that cgroups disallow
// (HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED). No component that opens GPUs or displays, or that binds
// the calling thread to CPUs, takes part, since this runs inside training processes. Fails with
// kInvalidUsage where a variable of hwloc replaces the machine (HWLOC_XMLFILE, HWLOC_SYNTHETIC,
// HWLOC_COMPONENTS).
Result<HwlocTopology> load_live(const HwlocLibrary& library);

// Loads a topology from `xml`, the text of an hwloc file that check_hwloc_xml() accepted. Errors
// name it by `name`.
Result<HwlocTopology> load_xml(const HwlocLibrary& library, const std::string& xml,
                               const std::string& name);

}  // namespace gdr::topology
