// Memory regions: registration of host memory, of CUDA addresses as with nvidia-peermem, and of
// CUDA memory by dma-buf.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "softhca/verbs/pd.h"
#include "softhca/verbs/pinned_memory.h"

namespace softhca {

// What handles of the same registration share.
struct Registration {
  uint32_t index = 0;  // in the arena's table, and ibv_mr::handle
  uint32_t key = 0;
  Region region;
  std::optional<DomainUse> use;  // of its PD
  PinnedMemory pinned;
};

// Behind ibv_reg_mr and ibv_import_mr.
struct Mr {
  ibv_mr verbs;
  std::shared_ptr<Registration> registration;

  static Mr& of(ibv_mr* mr) { return *reinterpret_cast<Mr*>(mr); }
};

// As ibv_reg_mr_iova2: null with errno set on failure. EFAULT: the memory cannot be pinned, or is
// CUDA memory without a peermem module; ENOMEM: beyond "bar1_bytes" or the limit on locked memory;
// EINVAL: no bytes, an iova with another place in its page than the address, or an access that the
// specification forbids (IBTA 11.2.8.2: remote write or atomic needs local write); EOPNOTSUPP: an
// access that this HCA does not have, as on-demand paging.
ibv_mr* reg_mr(ibv_pd* pd, void* address, size_t length, uint64_t iova, unsigned access);
// As ibv_reg_dmabuf_mr. CUDA memory is found by `iova`, which has to be its address in this
// process, as NCCL and perftest pass it. EBADF: a closed descriptor; EINVAL: one of something else
// than a dma-buf of that memory, as far as the driver shows it, or a range that is not within it.
ibv_mr* reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                      unsigned access);
// As ibv_rereg_mr: 0, or an ibv_rereg_mr_err_code with errno set. The keys stay the same, and so
// does the region after an error.
int rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, size_t length, unsigned access);
// Waits for transfers that use the region, for at most 2 s (one that was killed never ends).
int dereg_mr(ibv_mr* mr);
// A second handle, for another context of this process. Its `addr` is null, as ibv_import_mr(3)
// says.
ibv_mr* import_mr(ibv_pd* pd, uint32_t handle);
void unimport_mr(ibv_mr* mr);

}  // namespace softhca
