// What the files of a machine show of NVIDIA's GPUs and their driver.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topology/bdf.h"

namespace gdr::tools::doctor {

struct Host;

// The kernel module nvidia.
struct NvidiaModule {
  enum class State { kUnknown, kAbsent, kLoaded };
  State state = State::kUnknown;  // kUnknown: neither /proc/driver nor /sys/module is visible
  std::string version;            // "570.133.20"; "" where no file has it
  std::optional<bool> is_open;    // NVIDIA's open kernel modules; nothing: unknown
  std::string source;             // the file that shows it: "/proc/driver/nvidia/version"

  bool is_loaded() const { return state == State::kLoaded; }
};

NvidiaModule nvidia_module(const Host& host);

// An NVIDIA GPU on the PCI bus: vendor 10de, base class 03. Virtual functions are left out.
struct NvidiaGpu {
  topology::Bdf bdf;
  // The kernel driver that is bound to it: "nvidia", "vfio-pci", "" for none; nothing where the
  // files show the driver of no PCI function at all, as in some copies of /sys.
  std::optional<std::string> driver;
};

// Returns the GPUs by address; nothing where there is no /sys/bus/pci/devices.
std::optional<std::vector<NvidiaGpu>> nvidia_gpus(const Host& host);

// Whether the machine is known to have an NVIDIA GPU whose driver is loaded.
bool has_driven_nvidia_gpu(const Host& host);

// Returns "GPU3 (0000:5d:00.0)", as the topology counts GPUs, or the address alone.
std::string nvidia_gpu_label(const Host& host, const topology::Bdf& bdf);

// Returns uname's release of the kernel, from /proc: "6.8.0-60-generic"; "" where unknown.
std::string kernel_release_of(const Host& host);

// Returns what shows the facts that NVML alone has, for Observation::needs.
std::string needs_nvml(const Host& host);

// Returns the first word of a text that is a version, digits and dots alone: "570.133.20"; "" where
// there is none.
std::string first_version_in(const std::string& text);

}  // namespace gdr::tools::doctor
