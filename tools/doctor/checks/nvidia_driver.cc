#include <fmt/format.h>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/host.h"
#include "tools/doctor/joined.h"
#include "tools/doctor/nvidia_files.h"

namespace gdr::tools::doctor {
namespace {

constexpr char kNoNvidiaGpu[] =
    "there is no NVIDIA GPU in /sys/bus/pci/devices (vendor 10de, class 03)";
constexpr char kInstallNvidiaDriver[] =
    "install NVIDIA's driver with the open kernel modules (nvidia-open), and restart";

// Whether modprobe finds the module nvidia for this kernel.
bool has_nvidia_module_file(const Host& host) {
  const std::string list =
      host.read("/lib/modules/" + kernel_release_of(host) + "/modules.dep").value_or("");
  return list.find("/nvidia.ko") != std::string::npos;
}

Observation loaded_nvidia_driver(const NvidiaModule& module) {
  const std::string version = module.version.empty() ? "of unknown version" : module.version;
  if (!module.is_open.has_value()) {
    return ok("", fmt::format("NVIDIA's driver {} is loaded; whether its kernel modules are the "
                              "open ones is unknown ({})",
                              version, module.source));
  }
  return ok("", fmt::format("NVIDIA's driver {} is loaded, with {} ({})", version,
                            *module.is_open ? "the open kernel modules"
                                            : "the proprietary kernel modules, which export no "
                                              "dma-buf and need nvidia-peermem",
                            module.source));
}

Observation gpu_of_other_driver(const Host& host, const NvidiaGpu& gpu) {
  const std::string fix =
      *gpu.driver == "nouveau"
          ? "echo blacklist nouveau > /etc/modprobe.d/blacklist-nouveau.conf, rebuild the initial "
            "RAM disk (update-initramfs -u, or dracut -f), and "
          : "keep that driver from the GPU, and ";
  return failure(nvidia_gpu_label(host, gpu.bdf),
                 fmt::format("the driver {} is bound (the link `driver` in /sys/bus/pci/devices), "
                             "and not NVIDIA's",
                             *gpu.driver),
                 fix + kInstallNvidiaDriver);
}

Observation gpu_without_driver(const Host& host, const NvidiaGpu& gpu, const NvidiaModule& module) {
  const std::string label = nvidia_gpu_label(host, gpu.bdf);
  if (module.is_loaded()) {
    return failure(label, "no driver is bound, though NVIDIA's is loaded",
                   "look for the reason in the kernel's log: dmesg | grep -i -e NVRM -e Xid");
  }
  const std::string evidence =
      "NVIDIA's driver is not loaded (neither /proc/driver/nvidia/version nor /sys/module/nvidia)";
  if (is_in_container(host)) {
    return failure(label, evidence, "on the host of this container: modprobe nvidia");
  }
  if (!has_nvidia_module_file(host)) return failure(label, evidence, kInstallNvidiaDriver);
  return failure(label, evidence, "modprobe nvidia",
                 {{"Load NVIDIA's driver, which is installed for this kernel.", "modprobe nvidia",
                   "modprobe -r nvidia"}});
}

// A GPU that the loaded driver drives is in the observation of the driver.
Observations gpus_of_nvidia_driver(const Host& host, const std::vector<NvidiaGpu>& gpus,
                                   const NvidiaModule& module) {
  Observations seen;
  for (const NvidiaGpu& gpu : gpus) {
    const bool is_unbound = gpu.driver.has_value() ? gpu.driver->empty() : !module.is_loaded();
    if (is_unbound) {
      seen.push_back(gpu_without_driver(host, gpu, module));
    } else if (gpu.driver.value_or("nvidia") == "nvidia") {
      continue;
    } else if (gpu.driver->starts_with("vfio")) {
      seen.push_back(ok(nvidia_gpu_label(host, gpu.bdf),
                        fmt::format("handed to a virtual machine ({})", *gpu.driver)));
    } else {
      seen.push_back(gpu_of_other_driver(host, gpu));
    }
  }
  return with_joined_subjects(std::move(seen));
}

Observations run_nvidia_driver(const Host& host) {
  const auto gpus = nvidia_gpus(host);
  if (!gpus.has_value()) {
    return {unknown("", "there is no /sys/bus/pci/devices", "mount /sys")};
  }
  if (gpus->empty()) {
    return {unknown("", kNoNvidiaGpu,
                    "run it on a machine with an NVIDIA GPU, or pass the GPU through to this "
                    "virtual machine")};
  }
  const NvidiaModule module = nvidia_module(host);
  if (module.state == NvidiaModule::State::kUnknown) {
    return {unknown("",
                    "whether NVIDIA's driver is loaded is unknown, as there is neither "
                    "/proc/driver/nvidia nor /sys/module",
                    "mount /proc and /sys")};
  }
  Observations seen = gpus_of_nvidia_driver(host, *gpus, module);
  if (module.is_loaded()) seen.insert(seen.begin(), loaded_nvidia_driver(module));
  if (!seen.empty()) return seen;
  return {unknown("",
                  "the driver nvidia is bound to a GPU, but neither /proc nor /sys shows it loaded",
                  "mount /proc and /sys")};
}

}  // namespace

Check nvidia_driver() {
  return {.name = "nvidia-driver",
          .looks_at = "the NVIDIA GPUs, their kernel driver, and whether its modules are open",
          .why = "Without NVIDIA's driver no CUDA program uses the GPU.",
          .cost = Cost::kStops,
          .run = run_nvidia_driver};
}

}  // namespace gdr::tools::doctor
