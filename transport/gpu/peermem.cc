#include "transport/gpu/peermem.h"

#include <filesystem>
#include <fstream>
#include <system_error>

namespace gdr::gpu {
namespace {

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// Both modules register with the RDMA core as nv_mem; only nvidia-peermem does as nv_mem_nc.
PeermemKind kind_behind(const std::string& file, const std::string& sysfs_root) {
  bool nvidia_peermem = exists(sysfs_root + "/module/nvidia_peermem");
  bool shared_name = file == "kernel/mm/memory_peers/nv_mem/version";
  return shared_name && !nvidia_peermem ? PeermemKind::kNvPeerMem : PeermemKind::kNvidiaPeermem;
}

}  // namespace

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
  return {};
}

bool peermem_present(const std::string& sysfs_root) {
  return probe_peermem(sysfs_root).kind != PeermemKind::kAbsent;
}

}  // namespace gdr::gpu
