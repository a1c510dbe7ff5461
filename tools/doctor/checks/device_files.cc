// Files of /sys and /dev that a container may lack.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <map>
#include <system_error>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/checks/fabric_ports.h"
#include "tools/doctor/topology.h"

namespace gdr::tools::doctor {
namespace {

// How a container gets the device files.
std::string pass_devices(const Host& host) {
  if (is_in_docker(host)) return "start the container with --device=/dev/infiniband";
  if (host.process.container == Container::kKubernetes) {
    return "request the HCAs from the RDMA device plugin in the pod's resources (such as "
           "rdma/hca: 1), which adds their files of /dev/infiniband";
  }
  return "pass /dev/infiniband into the container";
}

Observation judge_missing_file(const Host& host, const std::string& device,
                               const std::string& file) {
  const std::string evidence =
      fmt::format("/sys/class/infiniband has it, and /dev/infiniband/{} does not exist", file);
  if (is_in_container(host)) return failure(device, evidence, pass_devices(host));
  return failure(device, evidence, "udevadm trigger --subsystem-match=infiniband_verbs",
                 {{"Makes udev create the device files of RDMA; they do no harm.",
                   "udevadm trigger --subsystem-match=infiniband_verbs", ""}});
}

Observation judge_open_error(const Host& host, const std::string& device, const DeviceFile& file) {
  const std::string evidence = fmt::format("/dev/infiniband/{} cannot be opened: {} (errno {})",
                                           file.name, std::strerror(file.error), file.error);
  if (file.error == EPERM && is_in_container(host)) {
    return failure(device, evidence + ", as the container's device cgroup denies it",
                   pass_devices(host));
  }
  if (file.error == EACCES || file.error == EPERM) {
    return failure(device, evidence,
                   "give users access by a udev rule: KERNEL==\"uverbs*\", "
                   "SUBSYSTEM==\"infiniband_verbs\", MODE=\"0666\" in "
                   "/etc/udev/rules.d/90-rdma.rules; that is the kernel's own choice, too");
  }
  return failure(device, evidence,
                 "look at the HCA's messages: dmesg | grep -i -e mlx -e infiniband");
}

Observation judge_device(const Host& host, const std::string& device, const std::string& name) {
  if (!host.process.uverbs.has_value()) {
    return unknown(device, "whether /dev/infiniband/" + name + " can be opened is unknown",
                   "run it on the machine itself");
  }
  const DeviceFile* file = uverbs_file(host, name);
  if (file != nullptr && file->error == 0) {
    return ok(device, "/dev/infiniband/" + name + " can be opened");
  }
  if (is_withheld(host, name)) {
    return ok(device, "it is not given to this container or job, and other HCAs are");
  }
  return file == nullptr ? judge_missing_file(host, device, name)
                         : judge_open_error(host, device, *file);
}

std::string on_machine(const Host& host, const std::string& command) {
  return is_in_container(host) ? "run on the machine, outside of the container: " + command
                               : command;
}

std::vector<FixStep> module_steps(const Host& host, const char* module) {
  if (is_in_container(host)) return {};
  return {{fmt::format("Loads {}, by which programs reach the HCAs, until the next boot.", module),
           fmt::format("modprobe {}", module), fmt::format("modprobe -r {}", module)}};
}

namespace fs = std::filesystem;

constexpr char kPciFolder[] = "/sys/bus/pci/devices";
constexpr char kMountSysfs[] =
    "mount the machine's /sys into the container, read-only is enough: -v /sys:/sys:ro";

// NVIDIA's driver lists its GPUs by PCI address, whatever the container shows of sysfs.
void judge_hidden_gpus(const Host& host, Observations* seen) {
  for (const std::string& name : host.names("/proc/driver/nvidia/gpus")) {
    std::string bdf = name;
    std::transform(bdf.begin(), bdf.end(), bdf.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (host.exists(fmt::format("{}/{}", kPciFolder, bdf))) continue;
    seen->push_back(failure(
        bdf, fmt::format("/proc/driver/nvidia/gpus has the GPU, and {} does not", kPciFolder),
        kMountSysfs));
  }
}

// Where only a part of sysfs is shown, the links of classes lead out of it. Virtual devices (rxe,
// siw) have no link `device`.
void judge_hidden_hcas(const Host& host, Observations* seen) {
  for (const std::string& name : host.names("/sys/class/infiniband")) {
    const std::string folder = "/sys/class/infiniband/" + name;
    for (const std::string& link : {folder, folder + "/device"}) {
      std::error_code ignored;
      if (host.exists(link) || !fs::is_symlink(host.path(link), ignored)) continue;
      seen->push_back(
          failure(name, fmt::format("{} leads to a folder that is not shown", link), kMountSysfs));
    }
  }
}

}  // namespace

Observations run_device_files(const Host& host) {
  const std::vector<std::string> devices = host.names("/sys/class/infiniband");
  if (devices.empty())
    return {nothing_on(host, "there is no RDMA device in /sys/class/infiniband")};
  const std::map<std::string, std::string> uverbs = uverbs_by_device(host);
  if (uverbs.empty()) {
    return {failure("",
                    "/sys/class/infiniband has RDMA devices, and /sys/class/infiniband_verbs has "
                    "none: ib_uverbs is not loaded",
                    on_machine(host, "modprobe ib_uverbs"), module_steps(host, "ib_uverbs"))};
  }
  Observations seen;
  for (const std::string& device : devices) {
    const auto file = uverbs.find(device);
    if (file == uverbs.end()) {
      seen.push_back(warning(device, "/sys/class/infiniband_verbs has no uverbs of it",
                             "look at the HCA's messages: dmesg | grep -i -e mlx -e infiniband"));
    } else {
      seen.push_back(judge_device(host, device, file->second));
    }
  }
  return seen;
}

Observations run_sysfs(const Host& host) {
  if (!host.exists("/sys/class")) {
    if (!host.is_live) return {unknown("", "there is no /sys", needs_sys(host))};
    return {failure("", "/sys is not mounted", "mount -t sysfs sysfs /sys",
                    {{"Mounts sysfs.", "mount -t sysfs sysfs /sys", "umount /sys"}})};
  }
  Observations seen;
  judge_hidden_gpus(host, &seen);
  judge_hidden_hcas(host, &seen);
  if (!seen.empty()) return seen;
  const size_t functions = host.names(kPciFolder).size();
  if (functions == 0) {
    return {ok("", fmt::format("{} is empty: there is no PCI device to look at", kPciFolder))};
  }
  return {ok("", fmt::format("{} shows {} functions; no GPU of /proc/driver/nvidia/gpus and no "
                             "RDMA device is missing",
                             kPciFolder, functions))};
}

}  // namespace gdr::tools::doctor
