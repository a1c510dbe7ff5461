// The kernel module by which ibv_reg_mr accepts addresses of GPU memory: nvidia-peermem, or its
// predecessor nv_peer_mem. Each registers with the RDMA core as a peer-memory client, whose files
// in sysfs are the sign that it is loaded.
#pragma once

#include <cstdint>
#include <string>

namespace gdr::transport {

enum class PeermemKind : uint8_t {
  kUnknown,        // sysfs is not mounted, as in some containers
  kAbsent,         // neither module is loaded
  kNvidiaPeermem,  // the module that comes with NVIDIA's driver
  kNvPeerMem,      // the predecessor, out of support: nvidia-peermem should replace it
};

struct Peermem {
  PeermemKind kind = PeermemKind::kUnknown;
  std::string sysfs_root;  // the sysfs that was searched
  std::string found_at;    // the file, relative to the root, that proves it; empty if none does
  std::string version;     // of the module, such as "535.104.05"; may be empty
};

// Looks for the module in the sysfs that is mounted at `sysfs_root`.
Peermem probe_peermem(const std::string& sysfs_root = "/sys");

// Whether one of the modules is known to be loaded.
bool is_present(const Peermem& peermem);

// Returns a word for the device's log line: "peermem", with a note if it is the old module;
// "peermem unknown: ..." with the reason; "" if no module is loaded.
std::string to_string(const Peermem& peermem);

// Returns the root of the sysfs that an HCA's ibdev_path (<root>/class/infiniband/<name>) is in. It
// is not /sys for a software HCA, or if sysfs is mounted elsewhere. "/sys" for a path of another
// form.
std::string sysfs_root_of(const std::string& ibdev_path);

}  // namespace gdr::transport
