// Reads the machine that this process runs on, as NCCL will see it: from the topology file that
// NCCL reads where there is one, else by hwloc, else from sysfs alone.
#pragma once

#include <filesystem>
#include <string>

#include "base/finding.h"
#include "topology/model.h"
#include "topology/sources/selection.h"

namespace gdr::topology {

// As a name of NCCL_TOPO_FILE, a file of which NCCL reads nothing.
inline constexpr char kNoFile[] = "/dev/null";

struct ReadOptions {
  std::string topology_file;  // NCCL_TOPO_FILE; empty: unset
  Selection selection;        // which PCI functions count as GPUs
  // NCCL reads this file where NCCL_TOPO_FILE is unset (ncclTopoGetSystem in its
  // src/graph/topo.cc), and does without it where it is absent.
  std::string default_topology_file = "/var/run/nvidia-topologyd/virtualTopology.xml";
  std::filesystem::path sysfs_root = "/sys";
};

// Returns the machine, sorted. Never fails: a source that cannot be read adds a finding, and the
// next source is used; with none left, the machine is empty.
Machine read_machine(const ReadOptions& options, Findings* findings);

}  // namespace gdr::topology
