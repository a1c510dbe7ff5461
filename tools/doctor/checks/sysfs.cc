// Whether /sys shows the devices, of which a container may lack some.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <system_error>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/topology.h"

namespace gdr::tools::doctor {
namespace {

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

Observations run_sysfs(const Host& host) {
  if (!host.exists("/sys/class")) {
    if (!host.is_live) return {unknown("", "there is no /sys", needs_sys(host))};
    return {failure("", "/sys is not mounted", "mount -t sysfs sysfs /sys",
                    {"mount -t sysfs sysfs /sys"})};
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
