// Facts about GPUs that only the CUDA driver knows. All of this asks a driver that the process has
// loaded already: loading it into a process that does not use CUDA would be a side effect.
#pragma once

#include "topology/model.h"

namespace gdr::topology {

// Returns whether this process has loaded the CUDA driver; every process that runs NCCL has.
bool uses_cuda();

// Fills compute_capability and gpudirect of the GPUs that this process may see (those of
// CUDA_VISIBLE_DEVICES). Does nothing where uses_cuda() is false.
void add_gpu_facts(Machine* machine);

// Returns whether the driver exports the memory of every visible GPU as dma-buf
// (CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED), which NCCL checks before it uses dma-buf; true where
// uses_cuda() is false.
bool gpus_export_dmabuf();

// Returns the index in machine.gpus of the GPU whose CUDA context is current in this thread, or -1.
int current_gpu(const Machine& machine);

}  // namespace gdr::topology
