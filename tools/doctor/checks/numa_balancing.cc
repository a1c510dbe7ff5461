#include <fmt/format.h>

#include <cstdlib>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/host.h"

namespace gdr::tools::doctor {
namespace {

// A bit mask: 1 balances between nodes, 2 only moves cold pages to slow memory
// (kernel documentation, admin-guide/sysctl/kernel.rst).
constexpr char kNumaBalancingFile[] = "/proc/sys/kernel/numa_balancing";

// "0" is one node; "0-1" and "0,8" are several.
bool has_several_nodes(const Host& host) {
  return host.line("/sys/devices/system/node/online").find_first_of("-,") != std::string::npos;
}

Observations run_numa_balancing(const Host& host) {
  const std::string text = host.line(kNumaBalancingFile);
  if (text.empty()) {
    if (host.line("/proc/sys/kernel/ostype").empty()) {
      return {unknown("", fmt::format("{} cannot be read", kNumaBalancingFile), "mount /proc")};
    }
    return {ok("", "the kernel has no automatic NUMA balancing")};
  }
  const long mode = std::strtol(text.c_str(), nullptr, 10);
  const std::string evidence =
      fmt::format("automatic NUMA balancing is {} ({} is {})", (mode & 1) != 0 ? "on" : "off",
                  kNumaBalancingFile, mode);
  if ((mode & 1) == 0) return {ok("", evidence)};
  if (!has_several_nodes(host)) {
    return {ok("", evidence + ", and this machine has one NUMA node")};
  }
  if (gpu_count(host) == 0 || rdma_device_names(host).empty()) {
    return {ok("", evidence + "; there is no pair of GPU and HCA here that it would disturb")};
  }
  return {warning("", evidence,
                  "sysctl -w kernel.numa_balancing=0, and the line "
                  "kernel.numa_balancing = 0 in a file of /etc/sysctl.d",
                  {{"Turns automatic NUMA balancing off until the next boot.",
                    "sysctl -w kernel.numa_balancing=0",
                    fmt::format("sysctl -w kernel.numa_balancing={}", mode)}})};
}

}  // namespace

Check numa_balancing() {
  return {.name = "numa-balancing",
          .looks_at = "the kernel's automatic NUMA balancing",
          .why =
              "The kernel unmaps pages to see who uses them, which delays NCCL's threads and "
              "the GPU's access to host memory.",
          .cost = Cost::kSlows,
          .run = run_numa_balancing};
}

}  // namespace gdr::tools::doctor
