// The registration paths: how an HCA can be given access to GPU memory, which of them the user
// allows, and what the machine supports.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "drivers/verbs/verbs_api.h"

namespace gdr::transport {

enum class RegistrationPath : uint8_t {
  kDmaBuf,   // ibv_reg_dmabuf_mr: GPUDirect RDMA through the kernel's dma-buf framework
  kPeermem,  // ibv_reg_mr of the GPU's address: GPUDirect RDMA by the kernel module nvidia-peermem
};
inline constexpr int kRegistrationPathCount = 2;

// Returns "dma-buf" or "nvidia-peermem", as logs name the path.
const char* name_of(RegistrationPath path);

// Some of the paths: those that may be tried, always in the order of the enum, or that work.
struct RegistrationPaths {
  bool dmabuf = true;
  bool peermem = true;

  bool operator==(const RegistrationPaths&) const = default;
  bool includes(RegistrationPath path) const;
  bool any() const { return dmabuf || peermem; }
  // Those that are in both.
  RegistrationPaths operator&(const RegistrationPaths& other) const {
    return {dmabuf && other.dmabuf, peermem && other.peermem};
  }

  // Parses the list of GDR_NCCL_GPU_MEMORY: "dmabuf" and "peermem" in any order, separated by a
  // comma, at least one. Any other text is a kInvalidArgument.
  static Result<RegistrationPaths> parse(std::string_view text);
  // The list in that grammar, in the order of the enum.
  std::string to_string() const;
};

// Whether the kernel, the HCA's driver and the verbs library support the registration of dma-bufs.
bool supports_dmabuf(const verbs::Api& api, ibv_pd* pd);

// Returns the path in sysfs of the HCA's Data Direct function, "/sys/devices/..."; "" if it has
// none, or if the provider, the kernel or the firmware cannot register dma-bufs with it.
//
// Data Direct of mlx5: the HCA accesses GPU memory by a PCI function of its own, which is nearer to
// the GPU, while its queues stay on the first. Data on the one path and completions on the other
// are not ordered, so a flush must follow each receive, on every generation of GPU. As in NCCL's
// net_ib (src/transport/net_ib/init.cc, reg.cc). Untried on hardware.
std::string find_data_direct(const verbs::Api& api, ibv_pd* pd);

enum class PeermemKind : uint8_t {
  kUnknown,        // sysfs is not mounted, as in some containers
  kAbsent,         // neither module is loaded
  kNvidiaPeermem,  // the module that comes with NVIDIA's driver
  kNvPeerMem,      // the predecessor, out of support: nvidia-peermem should replace it
};

// The kernel module by which ibv_reg_mr accepts addresses of GPU memory: nvidia-peermem, or its
// predecessor nv_peer_mem. Each registers with the RDMA core as a peer-memory client, whose files
// in sysfs are the sign that it is loaded.
struct Peermem {
  PeermemKind kind = PeermemKind::kUnknown;
  std::string
      found_at;  // the file, relative to the sysfs's root, that proves it; empty if none does
  std::string version;  // of the module, such as "535.104.05"; may be empty
};

// Looks for the module in the sysfs that is mounted at `sysfs_root`.
Peermem probe_peermem(const std::string& sysfs_root);

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
