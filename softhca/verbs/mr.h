// Memory regions.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "softhca/fabric/process.h"

namespace softhca {

ibv_mr* reg_mr(ibv_pd* pd, void* address, size_t length, uint64_t iova, unsigned access);
ibv_mr* reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                      unsigned access);
int dereg_mr(ibv_mr* mr);

}  // namespace softhca
