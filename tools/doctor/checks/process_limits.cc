// Limits of this process.
#include <fmt/format.h>

#include <sstream>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/topology.h"

namespace gdr::tools::doctor {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
// Queue pairs, completion queues and the host memory of a few connections need as much. GPU memory
// does not count: neither dma-buf nor nvidia-peermem accounts it to the process.
constexpr uint64_t kLeastMemoryLock = 64 * kMiB;
// The same for every connection of a process in a job of many nodes.
constexpr uint64_t kAmpleMemoryLock = 1024 * kMiB;
constexpr int kCapIpcLock = 14;  // CAP_IPC_LOCK of linux/capability.h

std::string memory_lock_text(uint64_t bytes) {
  return bytes == kNoLimit ? "unlimited" : fmt::format("{} KiB", bytes >> 10);
}

// Returns the systemd service that the process runs in; "" where it runs in none, as in a session
// of a user.
std::string service_of_process(const Host& host) {
  std::istringstream lines(host.read("/proc/self/cgroup").value_or(""));
  std::string service;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream parts(line);
    for (std::string part; std::getline(parts, part, '/');) {
      if (part.ends_with(".service") && !part.starts_with("user@")) service = part;
    }
  }
  return service;
}

std::string memory_lock_fix(const Host& host) {
  if (is_in_docker(host)) return "start the container with --ulimit memlock=-1:-1";
  if (host.process.container == Container::kKubernetes) {
    return "add IPC_LOCK to securityContext.capabilities.add of the pod's container, or set "
           "LimitMEMLOCK=infinity for the container runtime's service on the node";
  }
  if (host.process.in_slurm_job) {
    return "set PropagateResourceLimitsExcept=MEMLOCK in slurm.conf and LimitMEMLOCK=infinity for "
           "slurmd.service (systemctl edit slurmd), then restart slurmd on the nodes";
  }
  if (const std::string service = service_of_process(host); !service.empty()) {
    return fmt::format("set LimitMEMLOCK=infinity for {} (systemctl edit) and restart it", service);
  }
  return "write \"* - memlock unlimited\" and \"root - memlock unlimited\" to "
         "/etc/security/limits.d/90-nccl-gdr-memlock.conf and log in again; for jobs of a service "
         "such as slurmd, set LimitMEMLOCK=infinity in its unit";
}

Observation judge_memory_lock(const Host& host, const ResourceLimit& limit) {
  const std::string evidence = fmt::format("memlock of this process is {} (/proc/self/limits)",
                                           memory_lock_text(limit.soft));
  if (limit.soft >= kAmpleMemoryLock) return ok("", evidence);
  if (has_capability(host, kCapIpcLock)) {
    return ok("", evidence +
                      ", but CAP_IPC_LOCK exempts it (/proc/self/status); processes of users "
                      "without it are not exempt");
  }
  if (rdma_device_names(host).empty()) {
    return ok_without(host, "", evidence + "; there is no HCA here that would need more");
  }
  const LibraryFiles& verbs = host.libraries.verbs;
  if (!verbs.empty() && verbs.front().is_software_hca) {
    return ok("", evidence + "; the software HCA pins nothing");
  }
  const bool is_raised_by_user = limit.hard >= kAmpleMemoryLock;
  const std::string fix =
      is_raised_by_user
          ? fmt::format("run \"ulimit -l {}\" in the job's script, which the hard limit allows",
                        limit.hard == kNoLimit ? "unlimited" : std::to_string(limit.hard >> 10))
          : memory_lock_fix(host);
  if (limit.soft < kLeastMemoryLock) return failure("", evidence, fix);
  return warning("", evidence + ", which large jobs may exceed", fix);
}

}  // namespace

Observations run_memory_lock(const Host& host) {
  const std::optional<ResourceLimit> limit = resource_limit(host, "Max locked memory");
  if (limit.has_value()) return {judge_memory_lock(host, *limit)};
  return {unknown("", "/proc/self/limits has no line of locked memory", "mount /proc")};
}

}  // namespace gdr::tools::doctor
