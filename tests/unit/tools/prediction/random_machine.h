// Random topology files, of which NCCL's answers are in nccl_answers.json.
#pragma once

#include <cstdint>
#include <string>

namespace gdr::topology::nccl {

// Returns the same topology file, as NCCL writes them, for the same seed, on every platform.
// Machines have 1 to 16 GPUs, up to 16 HCAs and up to 4 NUMA nodes; they are odd rather than
// likely.
std::string random_machine(uint64_t seed);

}  // namespace gdr::topology::nccl
