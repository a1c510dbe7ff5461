// The driver of NVIDIA GPUs: its kernel modules, their legacy peer-memory module, and libcuda.so.1.
#include <fmt/format.h>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/facts/host.h"
#include "tools/doctor/facts/nvidia_files.h"
#include "tools/inspection/labels.h"

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
  return failure(label, evidence, "modprobe nvidia", {"modprobe nvidia"});
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
  return seen;
}

// Values of CUresult, from cuda.h.
constexpr int kCudaStubLibrary = 34;
constexpr int kCudaNoDevice = 100;
constexpr int kCudaSystemNotReady = 802;
constexpr int kCudaDriverMismatch = 803;
constexpr int kCudaCompatNotSupported = 804;

// CUDA's integer for a version: 12080 is 12.8.
std::string cuda_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Observation missing_cuda_driver(const Host& host) {
  const std::string evidence =
      fmt::format("the driver is loaded, but the loader does not find libcuda.so.1 ({})",
                  topo::clean_text(host.gpus.cuda_error));
  if (is_in_container(host)) {
    return failure("", evidence,
                   "start the container with NVIDIA's container toolkit: docker run --gpus all, "
                   "or runtimeClassName: nvidia in Kubernetes");
  }
  return warning("", evidence,
                 "install the driver's libraries (Debian: libcuda1, Ubuntu: libnvidia-compute), or "
                 "add their folder to /etc/ld.so.conf.d and run ldconfig; a host whose jobs run in "
                 "containers alone does without");
}

std::string fix_of_cuda_init(int result) {
  switch (result) {
    case kCudaStubLibrary:
      return "remove the folder `stubs` of the CUDA toolkit from LD_LIBRARY_PATH";
    case kCudaNoDevice:
      return "look at CUDA_VISIBLE_DEVICES, and for /dev/nvidia0 and its permissions: a container "
             "needs the devices (docker run --gpus all)";
    case kCudaSystemNotReady:
      return "systemctl start nvidia-fabricmanager (GPUs with NVSwitches), and look at its log";
    case kCudaDriverMismatch:
      return "restart the machine after an update of the driver, or reload its modules; in a "
             "container, remove its own copy of libcuda.so.1";
    case kCudaCompatNotSupported:
      return "remove the package cuda-compat from the library path, as the GPU does not support "
             "forward compatibility, or update the driver";
    default:
      return "look at nvidia-smi and the kernel's log: dmesg | grep -i -e NVRM -e Xid";
  }
}

std::string cuda_driver_text(const CudaLibrary& cuda) {
  const std::string path = topo::clean_text(cuda.path);
  if (cuda.version <= 0) return path + " is of an unknown version of CUDA";
  return fmt::format("{} is of CUDA {}", path, cuda_version_text(cuda.version));
}

Observation cuda_driver_and_module(const CudaLibrary& cuda, const NvidiaModule& module) {
  if (!cuda.lacks.empty()) {
    return warning("", topo::clean_text(cuda.path + ": " + cuda.lacks),
                   "update NVIDIA's driver to release 515 or newer");
  }
  const bool differs =
      !cuda.release.empty() && !module.version.empty() && cuda.release != module.version;
  const std::string modules =
      module.version.empty() ? "" : fmt::format(", and the kernel module {}", module.version);
  if (cuda.init_result == kCudaNoDevice && cuda.hides_gpus) {
    return unknown("", "CUDA finds no GPU, as far as CUDA_VISIBLE_DEVICES lets it",
                   "unset CUDA_VISIBLE_DEVICES");
  }
  if (!cuda.init_error.empty()) {
    return failure("",
                   fmt::format("cuInit fails with {} ({}); {}{}", topo::clean_text(cuda.init_error),
                               cuda.init_result, cuda_driver_text(cuda), modules),
                   fix_of_cuda_init(cuda.init_result));
  }
  return ok("", cuda_driver_text(cuda) + modules +
                    (differs ? "; the two work together by CUDA's forward compatibility" : ""));
}

}  // namespace

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

Observations run_cuda_driver(const Host& host) {
  if (!has_driven_nvidia_gpu(host)) {
    return {nothing_on(
        host, "there is no NVIDIA GPU with a loaded driver, whose CUDA could be looked at")};
  }
  if (!host.is_live) {
    return {unknown("", "no file shows which CUDA driver the loader finds",
                    "run it on the machine itself")};
  }
  if (!host.gpus.cuda.has_value()) return {missing_cuda_driver(host)};
  return {cuda_driver_and_module(*host.gpus.cuda, nvidia_module(host))};
}

}  // namespace gdr::tools::doctor
