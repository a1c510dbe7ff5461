#include "transport/device/peermem.h"

#include <filesystem>
#include <fstream>
#include <system_error>

namespace gdr::transport {
namespace {

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

Peermem probe_peermem(const std::string& sysfs_root) {
  for (const char* file :
       {"module/nvidia_peermem/version", "kernel/mm/memory_peers/nv_mem_nc/version",
        "kernel/mm/memory_peers/nv_mem/version"}) {
    std::string path = sysfs_root + "/" + file;
    if (!exists(path)) continue;
    Peermem found{kind_behind(file, sysfs_root), sysfs_root, file, ""};
    std::ifstream(path) >> found.version;
    return found;
  }
  bool looked = exists(sysfs_root + "/module") || exists(sysfs_root + "/kernel");
  return Peermem{looked ? PeermemKind::kAbsent : PeermemKind::kUnknown, sysfs_root, "", ""};
}

bool is_present(const Peermem& peermem) {
  return peermem.kind == PeermemKind::kNvidiaPeermem || peermem.kind == PeermemKind::kNvPeerMem;
}

std::string to_string(const Peermem& peermem) {
  switch (peermem.kind) {
    case PeermemKind::kUnknown:
      return "peermem unknown: there is no " + peermem.sysfs_root + "/module";
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
