// Whether a kernel module lets HCAs register GPU memory by its address (ibv_reg_mr).
#pragma once

#include <cstdint>
#include <string>

namespace gdr::gpu {

enum class PeermemKind : uint8_t {
  kAbsent,
  kNvidiaPeermem,  // the driver's own module
  kNvPeerMem,      // its predecessor, out of support: replace it by nvidia-peermem
};

struct Peermem {
  PeermemKind kind = PeermemKind::kAbsent;
  std::string found_at;  // the file under the root that told so
  std::string version;   // the module's
};

// `sysfs_root` is where sysfs is mounted.
Peermem probe_peermem(const std::string& sysfs_root = "/sys");

bool peermem_present(const std::string& sysfs_root = "/sys");

}  // namespace gdr::gpu
