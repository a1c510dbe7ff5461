// Files of NVIDIA's GPUs and driver for the tests of the checks.
#pragma once

#include <string>

#include "tests/unit/tools/doctor/facts/made_host.h"

namespace gdr::tools::doctor {

inline constexpr char kOpenModules[] =
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.133.20  Release Build  "
    "(dvs-builder@U22)  Sun Mar 30 08:00:00 UTC 2025\nGCC version:  gcc version 12.2.0\n";
inline constexpr char kProprietaryModules[] =
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n"
    "GCC version:  gcc version 12.2.0\n";

// A PCI function of NVIDIA's, with the driver that is bound to it; "" for none.
inline void add_nvidia_gpu(MadeHost* made, const std::string& address, const std::string& driver,
                           const std::string& class_code = "0x030200") {
  const std::string folder = "/sys/bus/pci/devices/" + address;
  made->write(folder + "/vendor", "0x10de\n");
  made->write(folder + "/class", class_code + "\n");
  if (!driver.empty()) made->link(folder + "/driver", "/sys/bus/pci/drivers/" + driver);
}

// The driver, loaded, and one GPU that it drives.
inline void add_driven_gpu(MadeHost* made, const std::string& version_file = kOpenModules) {
  made->write("/proc/driver/nvidia/version", version_file);
  made->write("/sys/module/nvidia/version", "570.133.20\n");
  made->write("/proc/sys/kernel/osrelease", "6.8.0-60-generic\n");
  add_nvidia_gpu(made, "0000:1a:00.0", "nvidia");
}

}  // namespace gdr::tools::doctor
