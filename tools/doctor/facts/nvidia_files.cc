#include "tools/doctor/facts/nvidia_files.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "tools/doctor/facts/host.h"
#include "tools/doctor/topology.h"
#include "tools/inspection/labels.h"
#include "topology/sources/sysfs_files.h"

namespace gdr::tools::doctor {
namespace {

namespace fs = std::filesystem;

constexpr char kNvidiaVersionFile[] = "/proc/driver/nvidia/version";
constexpr char kNvidiaModuleFolder[] = "/sys/module/nvidia";
constexpr uint16_t kNvidiaVendor = 0x10de;
constexpr uint32_t kNvidiaGpuClass = 0x03;  // PCI base class of display controllers

// The first line names the flavour of the modules: "NVRM version: NVIDIA UNIX Open Kernel Module
// for x86_64  570.133.20  Release Build ..." or "NVRM version: NVIDIA UNIX x86_64 Kernel Module
// 535.104.05 ..." (the driver's README, "Open Linux Kernel Modules").
NvidiaModule module_of_version_file(const std::string& text) {
  NvidiaModule module{NvidiaModule::State::kLoaded, "", {}, kNvidiaVersionFile};
  const std::string line = text.substr(0, text.find('\n'));
  module.version = first_version_in(line);
  if (line.find("Open Kernel") != std::string::npos) {
    module.is_open = true;
  } else if (line.find("Kernel Module") != std::string::npos) {
    module.is_open = false;
  }
  return module;
}

// Of the letters in a module's file `taint`, P stands for a proprietary license
// (Documentation/admin-guide/tainted-kernels.rst of Linux).
NvidiaModule module_of_sysfs(const Host& host) {
  const std::string folder = kNvidiaModuleFolder;
  NvidiaModule module{NvidiaModule::State::kLoaded, "", {}, folder};
  module.version = first_version_in(host.line(folder + "/version"));
  const std::string taint = host.line(folder + "/taint");
  if (!taint.empty()) module.is_open = taint.find('P') == std::string::npos;
  return module;
}

std::string pci_driver_of_gpu(const fs::path& folder) {
  std::error_code ignored;
  return topo::clean_text(fs::read_symlink(folder / "driver", ignored).filename().string());
}

bool is_driver_version(const std::string& word) {
  return word.find('.') != std::string::npos && word.front() != '.' &&
         word.find_first_not_of("0123456789.") == std::string::npos;
}

}  // namespace

NvidiaModule nvidia_module(const Host& host) {
  const std::optional<std::string> text = host.read(kNvidiaVersionFile);
  if (text.has_value() && !text->empty()) return module_of_version_file(*text);
  if (host.exists(kNvidiaModuleFolder)) return module_of_sysfs(host);
  NvidiaModule module;
  if (host.exists("/sys/module")) module.state = NvidiaModule::State::kAbsent;
  return module;
}

std::optional<std::vector<NvidiaGpu>> nvidia_gpus(const Host& host) {
  if (!host.exists("/sys/bus/pci/devices")) return {};
  std::vector<NvidiaGpu> gpus;
  bool any_driver = false;
  for (const fs::path& folder : topology::pci_folders(host.path("/sys"))) {
    const std::string driver = pci_driver_of_gpu(folder);
    any_driver = any_driver || !driver.empty();
    const auto function = topology::pci_function(folder);
    if (!function || function->ids.vendor != kNvidiaVendor ||
        function->class_code >> 16 != kNvidiaGpuClass || function->physical_function) {
      continue;
    }
    gpus.push_back({function->bdf, driver});
  }
  for (NvidiaGpu& gpu : gpus) {
    if (!any_driver) gpu.driver.reset();
  }
  std::sort(gpus.begin(), gpus.end(),
            [](const NvidiaGpu& a, const NvidiaGpu& b) { return a.bdf < b.bdf; });
  return gpus;
}

bool has_driven_nvidia_gpu(const Host& host) {
  const auto gpus = nvidia_gpus(host);
  return gpus.has_value() && !gpus->empty() && nvidia_module(host).is_loaded();
}

std::string nvidia_gpu_label(const Host& host, const topology::Bdf& bdf) {
  if (host.inspection.has_value()) {
    const topology::Machine& machine = host.inspection->decision.machine;
    for (size_t i = 0; i < machine.gpus.size(); ++i) {
      if (machine.gpus[i].bdf == bdf) return gpu_name(machine, i);
    }
  }
  return bdf.to_string();
}

std::string kernel_release_of(const Host& host) {
  return topo::clean_text(host.line("/proc/sys/kernel/osrelease"));
}

std::string needs_nvml(const Host& host) {
  return host.is_live ? "load NVIDIA's driver, and install its libnvidia-ml.so.1"
                      : "run it on the machine itself, with NVIDIA's driver loaded";
}

std::string first_version_in(const std::string& text) {
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (is_driver_version(word)) return word;
  }
  return "";
}

}  // namespace gdr::tools::doctor
