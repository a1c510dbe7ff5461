// The machine that this runs on, as NCCL will see it: from the topology file that NCCL reads, if
// there is one, else by hwloc, else by sysfs alone.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "plugin/config/options.h"
#include "topology/live/notes.h"
#include "topology/model.h"
#include "topology/sources/selection.h"

namespace gdr::topology {

struct MachineSources {
  // Read where NCCL_TOPO_FILE is unset, and not missed where it is not there.
  std::string default_topology_file = "/var/run/nvidia-topologyd/virtualTopology.xml";
  std::filesystem::path sysfs_root = "/sys";
};

Selection selection_of(const config::Options& options);

// Never fails: a source that cannot be read is noted, and the next one is taken.
Machine read_machine(const config::Options& options, Notes* notes,
                     const MachineSources& sources = {});

}  // namespace gdr::topology
