// Memory regions: registration of host memory, of CUDA addresses as with nvidia-peermem, and of
// CUDA memory by dma-buf.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace softhca {

// As ibv_reg_mr_iova2: null with errno set on failure. EFAULT: the memory cannot be pinned, or is
// CUDA memory without a peermem module; ENOMEM: beyond "bar1_bytes"; EINVAL: an access that the
// specification forbids (IBTA 11.2.8.2: remote write or atomic needs local write).
ibv_mr* reg_mr(ibv_pd* pd, void* address, size_t length, uint64_t iova, unsigned access);
// As ibv_reg_dmabuf_mr. The descriptor is only checked to be one: CUDA memory is found by `iova`,
// which has to be its address in this process, as NCCL and perftest pass it.
ibv_mr* reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                      unsigned access);
// Waits for transfers that use the region, for at most 2 s (one that was killed never ends).
int dereg_mr(ibv_mr* mr);

}  // namespace softhca
