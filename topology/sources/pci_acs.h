// Access Control Services of PCIe bridges (PCI Express Base Specification, section 6.12): whether
// the ports of a switch redirect traffic between the devices below them up to the CPU instead of
// forwarding it directly. GPUDirect RDMA through such a port is slow or does not work.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

namespace gdr::topology {

// The ACS control register, and its bits that redirect peer-to-peer traffic.
struct Acs {
  static constexpr uint16_t kRequestRedirect = 1 << 2;
  static constexpr uint16_t kCompletionRedirect = 1 << 3;

  bool known = false;  // false: the register could not be read, and the others mean nothing
  bool request_redirect = false;
  bool completion_redirect = false;
  std::optional<uint16_t> control = {};  // the register; nothing: unknown, or no such capability

  bool redirects() const { return request_redirect || completion_redirect; }
};

// Finds the ACS capability in the configuration space of a function (up to 4096 bytes). The result
// is unknown where the data ends before the extended capabilities do: without CAP_SYS_ADMIN the
// kernel returns 64 bytes. It is known and off for a function without the capability.
Acs parse_acs(std::span<const uint8_t> config);

// Reads the `config` file in a function's folder of sysfs.
Acs read_acs(const std::filesystem::path& function);

// Returns the ports at which traffic between two functions turns around in the switch that they
// share: the ports directly below the lowest bridge above both functions. Only these ports may
// redirect that traffic. Empty where the functions share no bridge. All paths are folders in sysfs
// with every link resolved.
std::vector<std::filesystem::path> turning_ports(const std::filesystem::path& one,
                                                 const std::filesystem::path& other);

}  // namespace gdr::topology
