// Whether a kernel module lets HCAs register GPU memory by its address (ibv_reg_mr).
#pragma once

#include <cstdint>
#include <string>

namespace gdr::transport {

enum class PeermemKind : uint8_t {
  kUnknown,  // there is no sysfs to look at, as in some containers
  kAbsent,
  kNvidiaPeermem,  // the driver's own module
  kNvPeerMem,      // its predecessor, out of support: replace it by nvidia-peermem
};

struct Peermem {
  PeermemKind kind = PeermemKind::kUnknown;
  std::string sysfs_root;  // where it was looked for
  std::string found_at;    // the file under the root that told so
  std::string version;     // the module's
};

// `sysfs_root` is where sysfs is mounted.
Peermem probe_peermem(const std::string& sysfs_root = "/sys");

// Whether one is known to be there.
bool is_present(const Peermem& peermem);

// "peermem"; with the module's name where that is the old one, with the reason where it is not
// known; "" where there is none.
std::string to_string(const Peermem& peermem);

// The sysfs that an HCA's ibdev_path (<root>/class/infiniband/<name>) lies in, which is not /sys
// for a software HCA or where sysfs is mounted elsewhere; "/sys" for a path of another shape.
std::string sysfs_root_of(const std::string& ibdev_path);

}  // namespace gdr::transport
