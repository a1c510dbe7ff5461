#include "transport/memory/registration_failure.h"

#include <cerrno>
#include <cstring>
#include <utility>

namespace gdr::transport {
namespace {

// A finding without its subject, which is the path in every case.
struct Cause {
  FailureReason reason;
  std::string text;
  std::string fix;
};

std::string mebibytes(uint64_t bytes) {
  constexpr uint64_t kMebi = uint64_t{1} << 20;
  return std::to_string((bytes + kMebi / 2) / kMebi) + " MiB";
}

std::string error_text(int error) {
  return std::string(std::strerror(error)) + ", errno " + std::to_string(error);
}

Cause file_descriptor_limit() {
  return {FailureReason::kFileDescriptorLimit, "this process has no file descriptor left",
          "raise the limit (ulimit -n; LimitNOFILE= of systemd and Slurm)"};
}

Cause failed_export(const SystemFacts& facts) {
  if (facts.file_descriptors_exhausted) return file_descriptor_limit();
  if (facts.driver_supports_dmabuf == false) {
    return {FailureReason::kDriverWithoutDmabuf, "the CUDA driver exports no dma-buf of this GPU",
            "use NVIDIA's open kernel modules of driver 515 or newer, with Linux 5.12 or newer"};
  }
  return {FailureReason::kAllocationWithoutDmabuf,
          "the CUDA driver exports no dma-buf of this allocation",
          "allocate with cudaMalloc, ncclMemAlloc, or cuMemCreate with gpuDirectRDMACapable set; a "
          "pool of cudaMallocAsync cannot be exported"};
}

Cause bar1_full(const Attempt& attempt, const SystemFacts& facts) {
  std::string size = facts.bar1_bytes ? "of " + mebibytes(*facts.bar1_bytes) : "of unknown size";
  return {FailureReason::kBar1Full,
          "no room for " + mebibytes(attempt.bytes) + " more in the GPU's BAR1 " + size + " (" +
              mebibytes(facts.registered_bytes) + " are registered here; " +
              error_text(attempt.error) + ")",
          "let BAR1 cover the GPU's memory (Resizable BAR and Above 4G Decoding in the firmware, "
          "nvidia-smi -q -d MEMORY shows it), or register less: NCCL_BUFFSIZE, NCCL_MAX_NCHANNELS"};
}

bool exceeds_bar1(const Attempt& attempt, const SystemFacts& facts) {
  return facts.bar1_bytes && facts.registered_bytes + attempt.bytes > *facts.bar1_bytes;
}

// Out of memory: BAR1 or the memory-lock limit, whichever is known to be too small.
Cause out_of_memory(const Attempt& attempt, const SystemFacts& facts) {
  bool locked =
      facts.memory_lock_limit && facts.pinned_bytes + attempt.bytes > *facts.memory_lock_limit;
  if (exceeds_bar1(attempt, facts) || !locked) return bar1_full(attempt, facts);
  return {FailureReason::kMemoryLockLimit,
          "the memory-lock limit is " + std::to_string(*facts.memory_lock_limit / 1024) + " KiB (" +
              error_text(attempt.error) + ")",
          "raise it (ulimit -l unlimited; LimitMEMLOCK=infinity of systemd and Slurm; "
          "--ulimit memlock=-1 or IPC_LOCK of containers)"};
}

Cause failed_peermem(const Attempt& attempt, const SystemFacts& facts) {
  std::string error = " (" + error_text(attempt.error) + ")";
  switch (facts.module.kind) {
    case PeermemKind::kUnknown:
      return {FailureReason::kPeermemUnknown,
              "whether nvidia-peermem is loaded is unknown, as there is no " +
                  facts.module.sysfs_root + "/module" + error,
              "modprobe nvidia-peermem on the host, and mount /sys in the container"};
    case PeermemKind::kAbsent:
      return {FailureReason::kPeermemNotLoaded,
              "the kernel module nvidia-peermem is not loaded" + error,
              "modprobe nvidia-peermem, on the host where this is a container"};
    case PeermemKind::kNvPeerMem:
      return {FailureReason::kPeermemLegacy,
              "the kernel module nv_peer_mem is out of support" + error,
              "unload it and modprobe nvidia-peermem, which comes with the driver"};
    case PeermemKind::kNvidiaPeermem:
      break;
  }
  return {FailureReason::kOther, "nvidia-peermem is loaded and rejected the address" + error,
          "see the kernel's log; after an update of the HCA's driver, rebuild and reload "
          "nvidia-peermem"};
}

Cause failed_dmabuf(const Attempt& attempt, const SystemFacts& facts) {
  bool unsupported = !facts.hca_supports_dmabuf || attempt.error == EOPNOTSUPP ||
                     attempt.error == EPROTONOSUPPORT || attempt.error == ENOSYS;
  if (unsupported && !kernel_has_dmabuf(facts.kernel)) {
    return {FailureReason::kKernelWithoutDmabuf, "Linux " + facts.kernel + " registers no dma-buf",
            "use Linux 5.12 or newer, or load nvidia-peermem"};
  }
  if (unsupported) {
    return {FailureReason::kHcaWithoutDmabuf, "the HCA's driver registers no dma-buf",
            "update rdma-core and the HCA's driver, or load nvidia-peermem"};
  }
  if (attempt.error == EINVAL && exceeds_bar1(attempt, facts)) return bar1_full(attempt, facts);
  return {FailureReason::kOther, error_text(attempt.error), ""};
}

Cause cause_of(const Attempt& attempt, const SystemFacts& facts) {
  if (attempt.export_failed) return failed_export(facts);
  if (attempt.error == EMFILE || attempt.error == ENFILE) return file_descriptor_limit();
  if (attempt.error == ENOMEM) return out_of_memory(attempt, facts);
  if (attempt.path == RegistrationPath::kDmaBuf) return failed_dmabuf(attempt, facts);
  if (attempt.error == EINVAL && exceeds_bar1(attempt, facts)) return bar1_full(attempt, facts);
  if (attempt.error == EFAULT || attempt.error == EINVAL) return failed_peermem(attempt, facts);
  return {FailureReason::kOther, error_text(attempt.error), ""};
}

void append_once(std::string* list, const std::string& text, const char* separator) {
  if (text.empty() || list->find(text) != std::string::npos) return;
  if (!list->empty()) *list += separator;
  *list += text;
}

}  // namespace

RegistrationFailure explain(const Attempt& attempt, const SystemFacts& facts) {
  Cause cause = cause_of(attempt, facts);
  return {cause.reason,
          Finding{FindingKind::kRegistration, Severity::kWarning, name_of(attempt.path),
                  std::move(cause.text), std::move(cause.fix)}};
}

RegistrationFailure disabled_by_user(RegistrationPath path) {
  return {FailureReason::kDisabledByUser,
          Finding{FindingKind::kRegistration, Severity::kWarning, name_of(path),
                  "disabled by GDR_NCCL_GPU_MEMORY or NCCL_DMABUF_ENABLE", ""}};
}

std::string joined_text(const Findings& findings, const std::string& last_fix) {
  std::string causes, fixes;
  for (const Finding& finding : findings) {
    append_once(&causes, finding.subject + ": " + finding.text, "; ");
    append_once(&fixes, finding.fix, "; or: ");
  }
  append_once(&fixes, last_fix, "; or: ");
  return fixes.empty() ? causes : causes + ". Fix: " + fixes;
}

}  // namespace gdr::transport
