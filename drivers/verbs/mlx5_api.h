// The part of mlx5's direct verbs that this tree calls, for Data Direct: the access of ConnectX-8
// and later to GPU memory through a PCI function of its own. libmlx5 is the provider that
// libibverbs loads for these HCAs; it is bound at run time. Source: rdma-core's
// providers/mlx5/mlx5dv.h and libmlx5.map; the prototypes here are our own, since older headers
// lack the functions.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace gdr::verbs {

// MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT: the HCA accesses the memory by its Data Direct function.
inline constexpr int kMlx5DataDirect = 1;

struct Mlx5Api {
  // Whether the device is one of mlx5's, and of this library's: for any other, the calls below are
  // undefined. Symbol version MLX5_1.8.
  bool (*is_supported)(ibv_device* device) = nullptr;
  // Writes the sysfs path of the HCA's Data Direct function, without "/sys". Returns 0 or an errno:
  // ENODEV without such a function, EOPNOTSUPP, ENOSPC. MLX5_1.25 (rdma-core 54).
  int (*get_data_direct_sysfs_path)(ibv_context* context, char* path, size_t room) = nullptr;
  // ibv_reg_dmabuf_mr with flags of mlx5: 0 or kMlx5DataDirect. MLX5_1.25.
  ibv_mr* (*reg_dmabuf_mr)(ibv_pd* pd, uint64_t offset, size_t bytes, uint64_t iova, int fd,
                           int access, int mlx5_access) = nullptr;

  // Returns the functions of libmlx5.so.1, loaded at the first call; null if the library or one of
  // the functions is missing. Call it only for an HCA of mlx5, after libibverbs has loaded that
  // HCA's provider: loading libmlx5 registers it with libibverbs.
  static const Mlx5Api* load();
};

}  // namespace gdr::verbs
