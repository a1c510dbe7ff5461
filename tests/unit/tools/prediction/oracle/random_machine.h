// Random topology files and settings, for comparing two readings of NCCL's rules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/prediction/settings.h"

namespace gdr::topology::oracle {

struct RandomMachine {
  std::string xml;          // a topology file as NCCL writes them
  bool partitions = false;  // it has a GPU that is split (MLOPart), which NCCL knows from 2.30.5
};

// Returns the same machine for the same seed, on every platform. Machines have 1 to 16 GPUs, up to
// 16 HCAs and up to 4 NUMA nodes; they are odd rather than likely.
RandomMachine random_machine(uint64_t seed);

// Returns random settings, mostly the defaults.
nccl::Settings random_settings(uint64_t seed);

// Returns the environment variables that give NCCL the settings: "NCCL_PXN_DISABLE=1", ...
std::vector<std::string> environment_of(const nccl::Settings& settings);

}  // namespace gdr::topology::oracle
