// Access Control Services (PCI Express Base Specification, 6.12) of bridges: whether the ports of a
// switch send traffic between the devices below them up to the CPU instead of straight across.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace gdr::topology {

struct Acs {
  bool known = false;  // else nothing could be learnt
  bool request_redirect = false;
  bool completion_redirect = false;

  bool redirects() const { return request_redirect || completion_redirect; }
};

// From the configuration space of a function. Not known where that ends before its capabilities do:
// without CAP_SYS_ADMIN the kernel shows 64 bytes. Known and off where there is no such capability.
Acs parse_acs(std::span<const uint8_t> config);

// Of the function whose folder in sysfs that is.
Acs read_acs(const std::filesystem::path& function);

// The ports between which traffic from one function to the other crosses the switch that they
// share, and which alone may redirect it: those next below the lowest bridge above both. Empty
// where they share none. By their folders, with every link resolved.
std::vector<std::filesystem::path> turning_ports(const std::filesystem::path& one,
                                                 const std::filesystem::path& other);

}  // namespace gdr::topology
