// What the checks of PCIe share: functions in sysfs, and the GPUs with the HCAs of their rails.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tools/doctor/host.h"

namespace gdr::tools::doctor {

// What shows that configuration space beyond 64 bytes, as Observation::needs.
inline constexpr char kNeedsRootForPci[] =
    "run it as root (in a container: with CAP_SYS_ADMIN and the host's /sys)";

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

// Returns the folder of a function with all links resolved; empty where sysfs does not show it.
std::filesystem::path pci_folder(const Host& host, const topology::Bdf& bdf);

// Returns the Device Control register of a function; nothing where that cannot be read.
std::optional<uint16_t> device_control_of(const Host& host, const topology::Bdf& bdf);

// Whether Address Translation Services are enabled in a function, so that it has the IOMMU
// translate addresses beforehand and its requests carry translated ones; nothing: unknown.
std::optional<bool> is_ats_enabled(const Host& host, const topology::Bdf& bdf);

// Whether the CPU says that a hypervisor is below the kernel (the flag in /proc/cpuinfo on x86; the
// firmware's product name elsewhere). The PCI tree is then the hypervisor's.
bool is_virtual_machine(const Host& host);

}  // namespace gdr::tools::doctor
