#include "transport/device/data_direct.h"

#include <cerrno>
#include <climits>

#include "base/log.h"

namespace gdr::transport {
namespace {

constexpr uint32_t kMellanox = 0x02c9;  // ibv_device_attr::vendor_id, an OUI

// The descriptor -1 is refused with EBADF where the call itself is supported; compare
// probe_dmabuf() in hca.cc.
bool can_register(const verbs::Mlx5Api& mlx5, ibv_pd* pd) {
  errno = 0;
  return mlx5.reg_dmabuf_mr(pd, 0, 0, 0, -1, 0, 0) == nullptr && errno != EOPNOTSUPP &&
         errno != EPROTONOSUPPORT && errno != ENOSYS;
}

}  // namespace

std::string find_data_direct(const verbs::Api& api, ibv_pd* pd, uint32_t vendor_id) {
  if (vendor_id != kMellanox || api.mlx5 == nullptr) return "";
  const verbs::Mlx5Api* mlx5 = api.mlx5();
  ibv_device* device = pd->context->device;
  if (mlx5 == nullptr || !mlx5->is_supported(device) || !can_register(*mlx5, pd)) return "";
  char path[PATH_MAX] = "";
  int err = mlx5->get_data_direct_sysfs_path(pd->context, path, sizeof(path));
  if (err == 0 && path[0] != '\0') return (path[0] == '/' ? "/sys" : "/sys/") + std::string(path);
  if (err != 0 && err != ENODEV && err != EOPNOTSUPP) {
    GDR_INFO(log::kInit | log::kNet, "%s: asking for its Data Direct function failed (errno %d)",
             api.get_device_name(device), err);
  }
  return "";
}

}  // namespace gdr::transport
