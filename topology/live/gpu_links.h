// NVLink and NVLink-C2C connections of GPUs, from NVIDIA's management library (NVML), read as NCCL
// reads them (ncclTopoGetXmlFromGpu in its src/graph/xml.cc).
#pragma once

#include <filesystem>

#include "topology/model.h"

namespace gdr::topology {

enum class LoadNvml {
  kOnlyIfLoaded,  // use NVML only where the process has loaded it, so that nothing else is loaded
  kYes,
};

// Fills nvlinks and c2c_links of each GPU where they are empty; what a topology file gave is left
// alone. Returns true and sets machine->gpu_links_known where NVML answered for every GPU, so that
// a GPU without links is known to have none. Returns false where NVML is absent or does not show
// one of the GPUs, which is then unchanged.
bool add_gpu_links(Machine* machine, LoadNvml load,
                   const std::filesystem::path& sysfs_root = "/sys");

}  // namespace gdr::topology
