// NCCL's environment variables that decide which HCA a GPU uses, and whether by GPUDirect RDMA.
#pragma once

#include <optional>

#include "tools/prediction/release.h"
#include "topology/path_class.h"

namespace gdr::topology::nccl {

// NCCL_NETDEVS_POLICY: how many of the HCAs that are equally near to a GPU it uses.
struct NetDevicesPolicy {
  enum class Kind {
    kAuto,  // as many as leave no HCA unused: equally near HCAs divided by GPUs, rounded up
    kAll,
    kMax,  // at most `max`
  };
  Kind kind = Kind::kAuto;
  int max = 0;
};

struct Settings {
  Release release = kNewestRelease;
  std::optional<PathClass> gdr_level;  // NCCL_NET_GDR_LEVEL; nothing: unset
  // NCCL_NET_GDR_READ, for sends: 0 never, 1 always, negative: depends on the GPU, as if unset.
  int gdr_read = -2;
  std::optional<bool> gdr_c2c;  // NCCL_NET_GDR_C2C; nothing: the release's default
  bool gdr_mlopart = false;     // NCCL_NET_GDR_MLOPART
  bool pxn_disable = false;     // NCCL_PXN_DISABLE
  std::optional<bool> pxn_c2c;  // NCCL_PXN_C2C; nothing: the release's default
  // NCCL_P2P_LEVEL, or kLoc for NCCL_P2P_DISABLE=1; nothing: the release's default.
  std::optional<PathClass> p2p_level;
  bool nvb_disable = false;  // NCCL_NVB_DISABLE
  NetDevicesPolicy net_devices;
};

}  // namespace gdr::topology::nccl
