#include "transport/device/registration_paths.h"

#include <cerrno>
#include <climits>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace gdr::transport {
namespace {

// What registering the invalid descriptor -1 fails with: EBADF where dma-bufs are supported, these
// where the kernel or the HCA's driver does not support them. NCCL probes the same way (net_ib).
bool is_unsupported(int err) {
  return err == EOPNOTSUPP || err == EPROTONOSUPPORT || err == ENOSYS;
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// Both modules register as the client nv_mem; only nvidia-peermem registers as nv_mem_nc, too.
PeermemKind kind_behind(const std::string& file, const std::string& sysfs_root) {
  bool nvidia_peermem = exists(sysfs_root + "/module/nvidia_peermem");
  bool shared_name = file == "kernel/mm/memory_peers/nv_mem/version";
  return shared_name && !nvidia_peermem ? PeermemKind::kNvPeerMem : PeermemKind::kNvidiaPeermem;
}

}  // namespace

const char* name_of(RegistrationPath path) {
  return path == RegistrationPath::kDmaBuf ? "dma-buf" : "nvidia-peermem";
}

bool RegistrationPaths::includes(RegistrationPath path) const {
  return path == RegistrationPath::kDmaBuf ? dmabuf : peermem;
}

Result<RegistrationPaths> RegistrationPaths::parse(std::string_view text) {
  if (text == "dmabuf") return RegistrationPaths{true, false};
  if (text == "peermem") return RegistrationPaths{false, true};
  if (text == "dmabuf,peermem" || text == "peermem,dmabuf") return RegistrationPaths{true, true};
  return fail(Code::kInvalidArgument, "it is neither dmabuf nor peermem nor dmabuf,peermem");
}

std::string RegistrationPaths::to_string() const {
  return std::string(dmabuf ? "dmabuf" : "") + (dmabuf && peermem ? "," : "") +
         (peermem ? "peermem" : "");
}

bool supports_dmabuf(const verbs::Api& api, ibv_pd* pd) {
  if (api.reg_dmabuf_mr == nullptr) return false;
  errno = 0;
  return api.reg_dmabuf_mr(pd, 0, 0, 0, -1, 0) == nullptr && !is_unsupported(errno);
}

std::string find_data_direct(const verbs::Api& api, ibv_pd* pd) {
  const verbs::Mlx5Api* mlx5 = api.mlx5 == nullptr ? nullptr : api.mlx5();
  if (mlx5 == nullptr || !mlx5->is_supported(pd->context->device)) return "";
  errno = 0;
  if (mlx5->reg_dmabuf_mr(pd, 0, 0, 0, -1, 0, 0) != nullptr || is_unsupported(errno)) return "";
  char path[PATH_MAX] = "";
  const int err = mlx5->get_data_direct_sysfs_path(pd->context, path, sizeof(path));
  if (err != 0 || path[0] == '\0') return "";
  return (path[0] == '/' ? "/sys" : "/sys/") + std::string(path);
}

Peermem probe_peermem(const std::string& sysfs_root) {
  for (const char* file :
       {"module/nvidia_peermem/version", "kernel/mm/memory_peers/nv_mem_nc/version",
        "kernel/mm/memory_peers/nv_mem/version"}) {
    std::string path = sysfs_root + "/" + file;
    if (!exists(path)) continue;
    Peermem found{kind_behind(file, sysfs_root), file, ""};
    std::ifstream(path) >> found.version;
    return found;
  }
  bool looked = exists(sysfs_root + "/module") || exists(sysfs_root + "/kernel");
  return Peermem{looked ? PeermemKind::kAbsent : PeermemKind::kUnknown, "", ""};
}

bool is_present(const Peermem& peermem) {
  return peermem.kind == PeermemKind::kNvidiaPeermem || peermem.kind == PeermemKind::kNvPeerMem;
}

std::string to_string(const Peermem& peermem) {
  switch (peermem.kind) {
    case PeermemKind::kUnknown:
      return "peermem unknown: there is no /sys/module";
    case PeermemKind::kAbsent:
      return "";
    case PeermemKind::kNvidiaPeermem:
      return "peermem";
    case PeermemKind::kNvPeerMem:
      return "peermem (nv_peer_mem, out of support: replace it by nvidia-peermem)";
  }
  return "";
}

std::string sysfs_root_of(const std::string& ibdev_path) {
  std::filesystem::path devices = std::filesystem::path(ibdev_path).parent_path();
  std::filesystem::path classes = devices.parent_path();
  bool as_expected = devices.filename() == "infiniband" && classes.filename() == "class";
  return as_expected ? classes.parent_path().string() : "/sys";
}

}  // namespace gdr::transport
