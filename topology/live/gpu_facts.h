// What the CUDA driver knows of the GPUs of a machine.
#pragma once

#include "topology/model.h"

namespace gdr::topology {

// Whether this process has loaded the CUDA driver, as one that NCCL runs in has.
bool uses_cuda();

// Fills compute_capability and gpudirect of the GPUs that this process may see. Does nothing in a
// process that has not loaded the CUDA driver itself.
void add_gpu_facts(Machine* machine);

// Whether the driver exports the memory of all GPUs that this process may see as dma-buf, as NCCL
// asks before it uses that; true where it cannot be asked.
bool gpus_export_dmabuf();

// Index in machine.gpus of the GPU whose context is current in this thread; -1: none.
int current_gpu(const Machine& machine);

}  // namespace gdr::topology
