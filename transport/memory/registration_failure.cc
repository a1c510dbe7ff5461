#include "transport/memory/registration_failure.h"

#include <cerrno>
#include <cstring>
#include <utility>

namespace gdr::transport {
namespace {

std::string mebibytes(uint64_t bytes) {
  constexpr uint64_t kMebi = uint64_t{1} << 20;
  return std::to_string((bytes + kMebi / 2) / kMebi) + " MiB";
}

std::string error_text(int error) {
  return std::string(std::strerror(error)) + ", errno " + std::to_string(error);
}

TextAndFix file_descriptor_limit() {
  return {"this process has no file descriptor left",
          "raise the limit (ulimit -n; LimitNOFILE= of systemd and Slurm)"};
}

TextAndFix failed_export(const SystemFacts& facts) {
  if (facts.file_descriptors_exhausted) return file_descriptor_limit();
  if (facts.driver_supports_dmabuf == false) {
    return {"the CUDA driver exports no dma-buf of this GPU",
            "use NVIDIA's open kernel modules of driver 515 or newer, with Linux 5.12 or newer"};
  }
  return {"the CUDA driver exports no dma-buf of this allocation",
          "allocate with cudaMalloc, ncclMemAlloc, or cuMemCreate with gpuDirectRDMACapable set; a "
          "pool of cudaMallocAsync cannot be exported"};
}

TextAndFix bar1_full(const Attempt& attempt, const SystemFacts& facts) {
  std::string size = facts.bar1_bytes ? "of " + mebibytes(*facts.bar1_bytes) : "of unknown size";
  return {"no room for " + mebibytes(attempt.bytes) + " more in the GPU's BAR1 " + size + " (" +
              mebibytes(facts.registered_bytes) + " are registered here; " +
              error_text(attempt.error) + ")",
          "let BAR1 cover the GPU's memory (Resizable BAR and Above 4G Decoding in the firmware, "
          "nvidia-smi -q -d MEMORY shows it), or register less: NCCL_BUFFSIZE, NCCL_MAX_NCHANNELS"};
}

bool exceeds_bar1(const Attempt& attempt, const SystemFacts& facts) {
  return facts.bar1_bytes && facts.registered_bytes + attempt.bytes > *facts.bar1_bytes;
}

// Out of memory: BAR1 or the memory-lock limit, whichever is known to be too small.
TextAndFix out_of_memory(const Attempt& attempt, const SystemFacts& facts) {
  bool locked =
      facts.memory_lock_limit && facts.pinned_bytes + attempt.bytes > *facts.memory_lock_limit;
  if (exceeds_bar1(attempt, facts) || !locked) return bar1_full(attempt, facts);
  return {"the memory-lock limit is " + std::to_string(*facts.memory_lock_limit / 1024) + " KiB (" +
              error_text(attempt.error) + ")",
          "raise it (ulimit -l unlimited; LimitMEMLOCK=infinity of systemd and Slurm; "
          "--ulimit memlock=-1 or IPC_LOCK of containers)"};
}

TextAndFix failed_peermem(const Attempt& attempt, const SystemFacts& facts) {
  std::string error = " (" + error_text(attempt.error) + ")";
  switch (facts.module.kind) {
    case PeermemKind::kUnknown:
      return {"whether nvidia-peermem is loaded is unknown, as there is no " +
                  facts.module.sysfs_root + "/module" + error,
              "modprobe nvidia-peermem on the host, and mount /sys in the container"};
    case PeermemKind::kAbsent:
      return {"the kernel module nvidia-peermem is not loaded" + error,
              "modprobe nvidia-peermem, on the host where this is a container"};
    case PeermemKind::kNvPeerMem:
      return {"the kernel module nv_peer_mem is out of support" + error,
              "unload it and modprobe nvidia-peermem, which comes with the driver"};
    case PeermemKind::kNvidiaPeermem:
      break;
  }
  return {"nvidia-peermem is loaded and rejected the address" + error,
          "see the kernel's log; after an update of the HCA's driver, rebuild and reload "
          "nvidia-peermem"};
}

TextAndFix failed_dmabuf(const Attempt& attempt, const SystemFacts& facts) {
  bool unsupported = !facts.hca_supports_dmabuf || attempt.error == EOPNOTSUPP ||
                     attempt.error == EPROTONOSUPPORT || attempt.error == ENOSYS;
  if (unsupported) {
    return {"the kernel or the HCA's driver registers no dma-buf",
            "use Linux 5.12 or newer, update rdma-core and the HCA's driver, or load "
            "nvidia-peermem"};
  }
  if (attempt.error == EINVAL && exceeds_bar1(attempt, facts)) return bar1_full(attempt, facts);
  return {error_text(attempt.error), ""};
}

TextAndFix cause_of(const Attempt& attempt, const SystemFacts& facts) {
  if (attempt.export_failed) return failed_export(facts);
  if (attempt.error == EMFILE || attempt.error == ENFILE) return file_descriptor_limit();
  if (attempt.error == ENOMEM) return out_of_memory(attempt, facts);
  if (attempt.path == RegistrationPath::kDmaBuf) return failed_dmabuf(attempt, facts);
  if (attempt.error == EINVAL && exceeds_bar1(attempt, facts)) return bar1_full(attempt, facts);
  if (attempt.error == EFAULT || attempt.error == EINVAL) return failed_peermem(attempt, facts);
  return {error_text(attempt.error), ""};
}

void append_once(std::string* list, const std::string& text, const char* separator) {
  if (text.empty() || list->find(text) != std::string::npos) return;
  if (!list->empty()) *list += separator;
  *list += text;
}

}  // namespace

Finding explain(const Attempt& attempt, const SystemFacts& facts) {
  TextAndFix cause = cause_of(attempt, facts);
  return {FindingKind::kRegistration, Severity::kWarning, name_of(attempt.path),
          std::move(cause.text), std::move(cause.fix)};
}

Finding disabled_by_user(RegistrationPath path) {
  return {FindingKind::kRegistration, Severity::kWarning, name_of(path),
          "disabled by GDR_NCCL_GPU_MEMORY or NCCL_DMABUF_ENABLE", ""};
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
