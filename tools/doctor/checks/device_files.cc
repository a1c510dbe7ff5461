#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/host.h"
#include "tools/doctor/uverbs_files.h"

namespace gdr::tools::doctor {
namespace {

// How a container gets the device files.
std::string pass_devices(const Host& host) {
  switch (host.process.container) {
    case Container::kDocker:
    case Container::kPodman:
      return "start the container with --device=/dev/infiniband";
    case Container::kKubernetes:
      return "request the HCAs from the RDMA device plugin in the pod's resources (such as "
             "rdma/hca: 1), which adds their files of /dev/infiniband";
    case Container::kOther:
      return "pass /dev/infiniband into the container";
    case Container::kNone:
      break;
  }
  return "";
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

}  // namespace

Check device_files() {
  return {.name = "device-files",
          .looks_at = "the files of /dev/infiniband by which programs open the HCAs",
          .why =
              "libibverbs leaves out an HCA whose file it cannot open, so that NCCL uses other "
              "HCAs or sockets.",
          .cost = Cost::kStops,
          .run = run_device_files};
}

}  // namespace gdr::tools::doctor
