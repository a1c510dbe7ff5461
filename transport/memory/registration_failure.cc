#include "transport/memory/registration_failure.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace gdr::transport {
namespace {

std::string mebibytes(uint64_t bytes) {
  constexpr uint64_t kMebi = uint64_t{1} << 20;
  return std::to_string((bytes + kMebi / 2) / kMebi) + " MiB";
}

std::string error_text(int error) {
  return std::string(std::strerror(error)) + ", errno " + std::to_string(error);
}

Explanation of_file_descriptors() {
  return {FailureReason::kFileDescriptors, "this process has no file descriptor left",
          "raise the limit (ulimit -n; LimitNOFILE= of systemd and Slurm)"};
}

Explanation of_export(const SystemFacts& now) {
  if (now.file_descriptors_exhausted) return of_file_descriptors();
  if (now.driver_exports == false) {
    return {FailureReason::kDriverWithoutDmabuf, "the CUDA driver exports no dma-buf of this GPU",
            "use NVIDIA's open kernel modules of driver 515 or newer, with Linux 5.12 or newer"};
  }
  return {FailureReason::kMemoryWithoutDmabuf,
          "the CUDA driver exports no dma-buf of this allocation",
          "allocate with cudaMalloc, ncclMemAlloc, or cuMemCreate with gpuDirectRDMACapable set; a "
          "pool of cudaMallocAsync cannot be exported"};
}

Explanation of_bar1(const Attempt& attempt, const SystemFacts& now) {
  std::string size = now.bar1_bytes ? "of " + mebibytes(*now.bar1_bytes) : "of unknown size";
  return {FailureReason::kBar1,
          "no room for " + mebibytes(attempt.bytes) + " more in the GPU's BAR1 " + size + " (" +
              mebibytes(now.registered_bytes) + " are registered here; " +
              error_text(attempt.error) + ")",
          "let BAR1 cover the GPU's memory (Resizable BAR and Above 4G Decoding in the firmware, "
          "nvidia-smi -q -d MEMORY shows it), or register less: NCCL_BUFFSIZE, NCCL_MAX_NCHANNELS"};
}

bool exceeds_bar1(const Attempt& attempt, const SystemFacts& now) {
  return now.bar1_bytes && now.registered_bytes + attempt.bytes > *now.bar1_bytes;
}

// Out of memory: BAR1 or the memory-lock limit, whichever is known to be too small.
Explanation of_no_memory(const Attempt& attempt, const SystemFacts& now) {
  bool locked = now.memory_lock && now.pinned_bytes + attempt.bytes > *now.memory_lock;
  if (exceeds_bar1(attempt, now) || !locked) return of_bar1(attempt, now);
  return {FailureReason::kMemoryLock,
          "the memory-lock limit is " + std::to_string(*now.memory_lock / 1024) + " KiB (" +
              error_text(attempt.error) + ")",
          "raise it (ulimit -l unlimited; LimitMEMLOCK=infinity of systemd and Slurm; "
          "--ulimit memlock=-1 or IPC_LOCK of containers)"};
}

Explanation of_address(const Attempt& attempt, const SystemFacts& now) {
  std::string error = " (" + error_text(attempt.error) + ")";
  switch (now.module.kind) {
    case PeermemKind::kUnknown:
      return {FailureReason::kModuleUnknown,
              "there is no " + now.module.sysfs_root +
                  "/module that tells whether nvidia-peermem is loaded" + error,
              "modprobe nvidia-peermem on the host, and mount /sys in the container"};
    case PeermemKind::kAbsent:
      return {FailureReason::kModuleAbsent,
              "the kernel module nvidia-peermem is not loaded" + error,
              "modprobe nvidia-peermem, on the host where this is a container"};
    case PeermemKind::kNvPeerMem:
      return {FailureReason::kModuleLegacy,
              "the kernel module nv_peer_mem is out of support" + error,
              "unload it and modprobe nvidia-peermem, which comes with the driver"};
    case PeermemKind::kNvidiaPeermem:
      break;
  }
  return {FailureReason::kOther, "nvidia-peermem is loaded and refused the address" + error,
          "see the kernel's log; after an update of the HCA's driver nvidia-peermem has to be "
          "built and loaded anew"};
}

Explanation of_dmabuf(const Attempt& attempt, const SystemFacts& now) {
  bool unsupported = !now.hca_takes_dmabuf || attempt.error == EOPNOTSUPP ||
                     attempt.error == EPROTONOSUPPORT || attempt.error == ENOSYS;
  if (unsupported && !kernel_has_dmabuf(now.kernel)) {
    return {FailureReason::kKernelWithoutDmabuf, "Linux " + now.kernel + " registers no dma-buf",
            "use Linux 5.12 or newer, or load nvidia-peermem"};
  }
  if (unsupported) {
    return {FailureReason::kHcaWithoutDmabuf, "the HCA's driver registers no dma-buf",
            "update rdma-core and the HCA's driver, or load nvidia-peermem"};
  }
  if (attempt.error == EINVAL && exceeds_bar1(attempt, now)) return of_bar1(attempt, now);
  return {FailureReason::kOther, error_text(attempt.error), ""};
}

}  // namespace

bool kernel_has_dmabuf(const std::string& release) {
  unsigned major = 0, minor = 0;
  if (std::sscanf(release.c_str(), "%u.%u", &major, &minor) != 2) return true;  // not to be told
  return major > 5 || (major == 5 && minor >= 12);
}

Explanation explain(const Attempt& attempt, const SystemFacts& now) {
  if (attempt.exporting) return of_export(now);
  if (attempt.error == EMFILE || attempt.error == ENFILE) return of_file_descriptors();
  if (attempt.error == ENOMEM) return of_no_memory(attempt, now);
  if (attempt.way == RegistrationPath::kDmaBuf) return of_dmabuf(attempt, now);
  if (attempt.error == EINVAL && exceeds_bar1(attempt, now)) return of_bar1(attempt, now);
  if (attempt.error == EFAULT || attempt.error == EINVAL) return of_address(attempt, now);
  return {FailureReason::kOther, error_text(attempt.error), ""};
}

}  // namespace gdr::transport
