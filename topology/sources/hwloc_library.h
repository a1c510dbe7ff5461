// libhwloc, loaded at run time: the plugin must load on hosts without it. A struct of function
// pointers, typed by hwloc's own header; what is in that header as inline code is used only where
// it calls no other function.
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
  decltype(&hwloc_distances_release) distances_release = nullptr;

  // Loads the library once per process; it stays.
  static Result<const HwlocLibrary*> load();
};

struct HwlocTopologyDeleter {
  const HwlocLibrary* library = nullptr;
  void operator()(hwloc_topology* topology) const { library->topology_destroy(topology); }
};
using HwlocTopology = std::unique_ptr<hwloc_topology, HwlocTopologyDeleter>;

// Of the machine that runs this, with nothing left out.
Result<HwlocTopology> load_live(const HwlocLibrary& library);

// `xml` is the text of an hwloc file, `name` what errors call it.
Result<HwlocTopology> load_xml(const HwlocLibrary& library, const std::string& xml,
                               const std::string& name);

}  // namespace gdr::topology
