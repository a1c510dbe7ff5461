// What the checks of PCIe share: functions in sysfs, and the GPUs with the HCAs of their rails.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tools/doctor/facts/host.h"

namespace gdr::tools::doctor {

// For Observation::needs: what shows the host's registers to a virtual machine's user.
inline constexpr char kNeedsHypervisor[] = "run nccl-gdr doctor on the hypervisor's host";

// Returns what shows configuration space beyond 64 bytes, for Observation::needs. Linux asks for
// CAP_SYS_ADMIN in the first user namespace (pci_read_config() in drivers/pci/pci-sysfs.c), which
// root does not have in most containers.
std::string needs_for_config(const Host& host);

// A GPU and an HCA that carries one of its rails.
struct GpuRailPair {
  size_t gpu = 0;
  size_t hca = 0;
  std::string name;  // "GPU0 and mlx5_0"
  // Whether NCCL uses GPUDirect RDMA between the two, to send or to receive.
  bool is_direct = false;
  bool is_shown = false;  // whether sysfs shows both
  // The ports of the switch that both are below, at which their traffic turns around; empty where
  // they share none.
  std::vector<std::filesystem::path> turning_ports;
};

// Returns all such pairs whose HCA is a PCI function; `host` has an inspection.
std::vector<GpuRailPair> gpu_rail_pairs(const Host& host);

// Returns the HCAs with rails that are PCI functions, as indexes; `host` has an inspection.
std::vector<size_t> rail_hcas(const Host& host);

// Returns the path of a function in sysfs, whether it exists or not: a link to its folder.
std::filesystem::path pci_path(const Host& host, const topology::Bdf& bdf);

// Whether Address Translation Services are enabled in a function, so that it has the IOMMU
// translate addresses beforehand and its requests carry translated ones; nothing: unknown.
std::optional<bool> is_ats_enabled(const Host& host, const topology::Bdf& bdf);

// Whether the CPU says that a hypervisor is below the kernel (the flag in /proc/cpuinfo on x86; the
// firmware's product name elsewhere). The PCI tree is then the hypervisor's.
bool is_virtual_machine(const Host& host);

}  // namespace gdr::tools::doctor
