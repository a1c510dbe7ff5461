// NVLinks and NVLink-C2C of the GPUs of a machine, from NVIDIA's management library (NVML), as NCCL
// reads them.
#pragma once

#include <filesystem>

#include "topology/model.h"

namespace gdr::topology {

enum class LoadNvml {
  kOnlyIfLoaded,  // NCCL has loaded it; to load it into anyone's process would be a side effect
  kYes,
};

// Fills nvlinks and c2c_links where they are empty: one that a topology file tells stays. A GPU
// that NVML does not show, or all where there is no NVML, stays as it is. True where NVML answered
// for every GPU, so that a GPU without links has none; gpu_links_known is then set.
bool add_gpu_links(Machine* machine, LoadNvml load,
                   const std::filesystem::path& sysfs_root = "/sys");

}  // namespace gdr::topology
