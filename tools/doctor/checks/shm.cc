#include <fmt/format.h>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/host.h"

namespace gdr::tools::doctor {
namespace {

constexpr uint64_t kShmMiB = uint64_t{1} << 20;
// A connection of NCCL's shared-memory transport has a segment of about 10 MB, and creating it
// fails where the file system is full (ncclShmOpen in NCCL's src/misc/shmutils.cc).
constexpr uint64_t kLeastFreeShm = 16 * kShmMiB;
// What NCCL's user guide asks for containers (--shm-size=1g); Docker's default is 64 MiB.
constexpr uint64_t kAmpleShm = 1024 * kShmMiB;

std::string shm_fix(const Host& host) {
  switch (host.process.container) {
    case Container::kDocker:
    case Container::kPodman:
      return "start the container with --shm-size=1g or more, or with --ipc=host";
    case Container::kKubernetes:
      return "mount an emptyDir with medium: Memory at /dev/shm of the pod's container";
    case Container::kNone:
    case Container::kOther:
      break;
  }
  return "mount -o remount,size=50% /dev/shm, and the same size in /etc/fstab";
}

std::vector<FixStep> shm_steps(const Host& host, const FileSystemSize& shm) {
  if (is_in_container(host)) return {};
  return {{"Makes /dev/shm as large as half of the memory, until the next boot.",
           "mount -o remount,size=50% /dev/shm",
           fmt::format("mount -o remount,size={} /dev/shm", shm.bytes)}};
}

Observations run_shm(const Host& host) {
  if (!host.process.shm.has_value()) {
    const char* needs = host.is_live ? "mount a tmpfs at /dev/shm" : "run it on the machine itself";
    return {unknown("", "the size of /dev/shm is unknown", needs)};
  }
  const FileSystemSize shm = *host.process.shm;
  const std::string evidence = fmt::format("/dev/shm has {} MiB, {} MiB of them free (statvfs)",
                                           shm.bytes / kShmMiB, shm.free_bytes / kShmMiB);
  const size_t gpus = gpu_count(host);
  if (gpus == 0) return {ok("", evidence + "; there is no GPU here whose processes would need it")};
  if (shm.free_bytes < kLeastFreeShm) {
    if (shm.bytes < kAmpleShm) return {failure("", evidence, shm_fix(host), shm_steps(host, shm))};
    return {failure("", evidence,
                    "remove what is left there by processes that are gone: ls -l /dev/shm")};
  }
  if (shm.bytes >= kAmpleShm) return {ok("", evidence)};
  return {warning("", fmt::format("{}, for {} GPU{}", evidence, gpus, gpus == 1 ? "" : "s"),
                  shm_fix(host), shm_steps(host, shm))};
}

}  // namespace

Check shm() {
  return {.name = "shm",
          .looks_at = "size and free space of /dev/shm",
          .why =
              "NCCL's processes of one machine share memory there, and fail to connect (\"Error "
              "while creating shared memory segment\") where it is full.",
          .cost = Cost::kStops,
          .run = run_shm};
}

}  // namespace gdr::tools::doctor
